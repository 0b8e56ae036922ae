"""Environments written for other packages, as environments of this one: what `openenv import` generates is based on."""
