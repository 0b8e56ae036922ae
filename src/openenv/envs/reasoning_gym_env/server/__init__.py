"""The server of the reasoning-gym environment.

Only the worker process (`worker.py`) loads reasoning-gym; see `library_process.py` for the reasons.
"""
