"""Engines: what plays groups and trains on them, behind one interface for the training loop."""
