"""Reinforcement learning of language models in environments.

Each module is one part and can be used alone; `openenv.rl.setup.setup_training` puts them together. Nothing here is
imported for you: the parts need torch and transformers (extra `train`), the configuration and the report do not.
"""
