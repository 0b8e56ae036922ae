"""`core`, as the tutorials name `openenv.core`."""

from openenv.aliases import alias

alias("core", "openenv.core")
