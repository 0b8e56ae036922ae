"""Removes a container when the process that has started it ends without doing so.

`python owner_watch.py URL NAME FOLDER` reads a pipe as its standard input, whose other end only the owner holds. URL
may be empty, for the engine of DOCKER_HOST; FOLDER, too: it is removed with the container. The file is run by its
path and imports nothing before it has to: one such process waits beside each container.
"""

import os
import sys


def main(url: str, name: str, folder: str) -> None:
    """Wait for the end of the owner, and remove what it has left."""
    while os.read(sys.stdin.fileno(), 1024):
        pass
    # imported only when there is something to do
    import shutil

    import docker

    client = docker.DockerClient(url) if url else docker.from_env()
    try:
        client.api.remove_container(name, force=True, v=True)
    except docker.errors.NotFound:
        pass
    finally:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
