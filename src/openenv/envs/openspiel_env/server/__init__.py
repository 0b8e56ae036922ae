"""The server of the OpenSpiel environment; it needs OpenSpiel."""
