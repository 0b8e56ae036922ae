"""Reinforcement learning of language models in environments.

Each module is one part and can be used alone; `openenv.rl.setup.setup_training` assembles them. Nothing is imported
here: the parts need torch and transformers (extra `train`), while the configuration and the report do not.
"""
