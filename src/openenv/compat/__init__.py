"""Names of the published package `openenv` 0.10.0: messages as models, and where other names stand (`moved.py`)."""

from openenv.compat.aliases import move
from openenv.compat.moved import MODULES

for _old, _new in MODULES.items():
    move(_old, _new)
