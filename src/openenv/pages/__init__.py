"""Pages that are served apart from an environment: runs of training, replays, comparisons of policies."""
