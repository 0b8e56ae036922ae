"""The command line of a server sets its limits."""

import argparse
from pathlib import Path

import pytest

from openenv.core.env_server import ServerConfig
from openenv.hosting.serving.cli_options import add_server_options, server_config


def config_of(*argv: str) -> ServerConfig:
    parser = argparse.ArgumentParser()
    add_server_options(parser)
    return server_config(parser.parse_args(argv))


def test_without_options_every_limit_has_its_default(monkeypatch):
    monkeypatch.delenv("OPENENV_TOKEN", raising=False)
    assert config_of() == ServerConfig()


def test_each_option_sets_its_limit(monkeypatch):
    monkeypatch.setenv("OPENENV_TOKEN", "s3cret")
    config = config_of("--max-queue", "3", "--reconnect-grace-s", "0.5", "--record-dir", "runs", "--trace")
    assert config == ServerConfig(
        max_queue=3, reconnect_grace_s=0.5, record_dir=Path("runs"), trace=True, token="s3cret"
    )


@pytest.mark.parametrize(
    ("former", "name", "field"),
    [
        ("--max-waiting", "--max-queue", "max_queue"),
        ("--max-wait-s", "--queue-timeout-s", "queue_timeout_s"),
        ("--grace-s", "--reconnect-grace-s", "reconnect_grace_s"),
    ],
)
def test_a_former_option_sets_the_limit_and_warns_with_its_name_of_now(former, name, field):
    with pytest.warns(DeprecationWarning, match=f"{former} is called {name} now"):
        config = config_of(former, "7")
    assert getattr(config, field) == 7
