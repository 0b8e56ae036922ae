"""The health check of images reads the address of its server from the server's command line."""

import pytest

from openenv.hosting.images.health_check import is_healthy
from openenv.hosting.local_process import LocalServer

pytestmark = pytest.mark.process


def test_the_last_address_of_a_command_line_is_asked(tmp_path) -> None:
    socket = f"unix:{tmp_path}/s"
    with LocalServer("openenv.envs.echo_env.server.app") as server:
        port = server.base_url.rpartition(":")[2]

        assert is_healthy(["python", "--host", "0.0.0.0", "--port", port])
        assert is_healthy(["python", "--host", socket, "--host=127.0.0.1", f"--port={port}", ""])
        with pytest.raises(OSError, match="No such file"):
            is_healthy(["python", "--port", port, "--host", socket])
    with pytest.raises(OSError, match="refused"):
        is_healthy(["python", "--port", port])


def test_an_answer_that_is_no_success_is_not_healthy(serving) -> None:
    from fastapi import FastAPI

    port = serving(FastAPI()).rpartition(":")[2]

    assert not is_healthy(["--port", port])
