"""The server of the relic."""
