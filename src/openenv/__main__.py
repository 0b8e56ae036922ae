"""`python -m openenv`: the command line, where the `openenv` script is not on the path."""

from openenv.cli.main import main

if __name__ == "__main__":
    main()
