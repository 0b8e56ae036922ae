"""Commands that serve pages."""
