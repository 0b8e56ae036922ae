"""Rollouts: plays groups of episodes, rewards them, and passes them to the trainer through the replay buffer."""
