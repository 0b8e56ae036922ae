"""Rollouts: plays groups of episodes and rewards them."""
