"""What stands behind a client: its address, its session, and the transports that carry its requests."""
