"""Names of the published package `openenv` 0.10.0: what only they need, and where the others stand (`moved.py`)."""

from openenv.compat.aliases import move
from openenv.compat.moved import MODULES

for _old, _new in MODULES.items():
    move(_old, _new)
