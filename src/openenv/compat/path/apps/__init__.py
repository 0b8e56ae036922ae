"""`apps`, where the tutorial has its training program."""
