"""Proofs that an environment rewards what it should, and a signed card with their figures: `openenv certify`."""
