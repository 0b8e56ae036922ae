"""Where a server runs."""
