"""Rollouts in a slow environment: episodes that wait for each other beside episodes that do not."""
