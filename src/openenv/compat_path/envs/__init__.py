"""`envs`, as the tutorials name `openenv.envs`."""

from openenv.aliases import alias

alias("envs", "openenv.envs")
