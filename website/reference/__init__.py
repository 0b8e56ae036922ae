"""The pages of the reference: Python, keys of YAML, commands, and error codes."""
