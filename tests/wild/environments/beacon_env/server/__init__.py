"""The server of the beacon."""
