"""Exact values of policies in small games, for comparison with anything that learns."""
