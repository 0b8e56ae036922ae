"""`envs`, as the tutorials name `openenv.envs`."""

from openenv.compat.aliases import alias

alias("envs", "openenv.envs")
