"""Files of recorded episodes: their format, the recorder of an evaluation, and session recordings as episodes."""
