"""The server of the chess environment; it needs OpenSpiel."""
