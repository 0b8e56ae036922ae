"""The server of the Atari games; it needs ale-py, which is under the GPL."""
