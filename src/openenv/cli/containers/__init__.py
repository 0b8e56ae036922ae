"""The commands that build images of environments and write what runs them elsewhere."""
