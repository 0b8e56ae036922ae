"""Evaluations of a run: before and after training, and at intervals during it."""
