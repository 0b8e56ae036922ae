"""A solver of the git tasks."""
