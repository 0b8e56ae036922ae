"""Proof that tests notice what breaks: changes of a copy of the source, each of which a test must fail on."""
