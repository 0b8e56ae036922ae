"""Commands for authors of environments: write one, import one, check it."""
