"""What waits for what in a run, since when, and what ends a wait that would have no end."""
