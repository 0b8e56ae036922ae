"""The algorithm in one view: rewards, advantages, batches, losses, and what a run learns from. No engine, no files."""
