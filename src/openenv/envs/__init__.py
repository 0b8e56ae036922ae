"""The bundled environments, one folder each. `openenv.envs.catalog` lists them."""
