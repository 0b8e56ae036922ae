"""The server of the trading environment."""
