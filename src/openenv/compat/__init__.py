"""Names of the published package `openenv` 0.10.0 whose parts stand elsewhere here: `moved.py` has the table."""

from openenv.compat.aliases import move
from openenv.compat.moved import MODULES

for _old, _new in MODULES.items():
    move(_old, _new)
