"""The server's half: it alone needs OpenSpiel installed."""
