"""All that a model sees and replies: prompts, observations as text, legal actions, and how replies are read."""
