"""`core`, as the tutorials name `openenv.core`."""

from openenv.compat.aliases import alias

alias("core", "openenv.core")
