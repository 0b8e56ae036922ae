"""A run whose processes end, or hang, again and again: its weights beside those of a run that is left alone."""
