"""The `openenv` command: one module for each subcommand."""
