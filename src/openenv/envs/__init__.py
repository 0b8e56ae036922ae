"""The environments that come with the library, one folder each. `openenv.envs.catalog` lists them."""
