"""Calls the methods of an environment: validated arguments in, encoded observations out."""
