"""Recorded episodes in the forms of others: datasets/Parquet, Minari, ATIF, and rows for TRL's SFT and DPO trainers."""

from openenv.integrations.data.export import FORMATS, export_episodes, load_episodes

__all__ = ["FORMATS", "export_episodes", "load_episodes"]
