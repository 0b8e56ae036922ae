"""`openenv fork` copies a Space of the Hub into the user's account."""

import pytest

from tests.cli.commands import run, run_process
from tests.cli.hub.conftest import Hub
from tests.cli.hub.local_hub import HubSpace

pytestmark = pytest.mark.process


@pytest.fixture
def source(hub: Hub) -> HubSpace:
    """A private Space of another user."""
    hub.state.spaces["bob/tide"] = HubSpace(private=True, files={"Dockerfile": b"FROM x"}, secrets={"KEY": "bobs"})
    return hub.state.spaces["bob/tide"]


def test_its_help_shows_an_example():
    assert "openenv fork owner/my-env" in run("fork", "--help").stdout.split("Example")[1]


def test_a_space_is_copied_under_its_name_on_free_hardware(hub: Hub, source: HubSpace):
    done = run_process("fork", "bob/tide")

    assert (done.returncode, done.stdout) == (0, f"forked bob/tide to {hub.url}/spaces/ada/tide\n"), done.stderr
    assert hub.state.spaces["ada/tide"] == HubSpace(files=source.files, hardware="cpu-basic")


def test_options_set_the_name_and_the_settings_of_the_copy(hub: Hub, source: HubSpace):
    done = run(
        "fork", "bob/tide", "-r", "ada/ebb", "--private", "-H", "t4-small",
        "-e", "A=1", "--set-env", "B=x=y", "-s", "KEY=s3cret", "--secret", "C=2",
    )  # fmt: skip

    assert hub.state.spaces["ada/ebb"] == HubSpace(
        private=True, files=source.files, hardware="t4-small",
        variables={"A": "1", "B": "x=y"}, secrets={"KEY": "s3cret", "C": "2"},
    )  # fmt: skip
    assert "s3cret" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["tide"], 2, "SOURCE_SPACE 'tide': write OWNER/NAME"),
        (["bob/tide", "--repo-id", "tide"], 2, "--repo-id 'tide': write OWNER/NAME"),
        (["bob/tide", "--set-env", "A"], 2, "write KEY=VALUE"),
        (
            ["bob/tide", "--set-secret", "s3cret"],
            2,
            "(not shown): write KEY, with the value in the environment variable KEY",
        ),
        (["bob/none"], 1, "cannot copy bob/none"),
        (["bob/tide", "--repo-id", "bob/tide"], 1, "bob/tide exists already"),
    ],
)
def test_what_cannot_be_copied_is_refused(hub: Hub, source: HubSpace, args, code, words):
    done = run("fork", *args)

    assert done.returncode == code
    assert words in " ".join(done.stderr.replace("│", " ").split())
    assert "s3cret" not in done.stderr
    assert {*hub.state.spaces} == {"bob/tide"}


def test_without_a_valid_token_the_remedy_is_named(hub: Hub, source: HubSpace, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_of_no_user")
    done = run("fork", "bob/tide")

    assert done.returncode == 2
    assert "hf auth login" in done.stderr
