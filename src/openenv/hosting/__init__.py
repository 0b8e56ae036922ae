"""Servers on this machine and in containers: server processes, readiness, and the providers in `runtime`."""
