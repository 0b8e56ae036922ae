"""`openenv push` puts the folder of an environment on the Hub, as a Docker Space that can be built there."""

import sys
from pathlib import Path

import pytest
import yaml

from openenv.installation import install_line
from tests.cli.commands import run, run_process
from tests.cli.hub.conftest import Hub
from tests.cli.hub.local_hub import HubSpace

pytestmark = pytest.mark.process


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A new environment, as `openenv init` writes it."""
    assert run("init", "tide_env", "-o", str(tmp_path)).returncode == 0
    return tmp_path / "tide_env"


def header(space: HubSpace) -> dict[str, object]:
    _, text, _ = space.files["README.md"].decode().split("---\n", 2)
    return yaml.safe_load(text)


def test_its_help_shows_an_example():
    assert "openenv push ./my_env" in run("push", "--help").stdout.split("Example")[1]


def test_a_new_environment_becomes_a_docker_space_of_the_user(hub: Hub, folder: Path):
    done = run_process("push", str(folder))

    assert done.returncode == 0, done.stderr
    assert f"{hub.url}/spaces/ada/tide_env" in done.stdout
    space = hub.state.spaces["ada/tide_env"]
    assert header(space) == {
        "title": "Tide Env", "sdk": "docker", "app_port": 8000, "base_path": "/web", "tags": ["openenv"]
    }  # fmt: skip
    assert space.files["README.md"].decode().endswith((folder / "README.md").read_text())
    assert len([call for call in hub.state.requests if "/commit/" in call]) == 1, "the Hub builds after each commit"
    assert {"openenv.yaml", "client.py", "models.py", "server/app.py", "pyproject.toml", "Dockerfile"} <= {*space.files}
    assert "server/Dockerfile" not in space.files
    assert not space.private


def test_the_hub_can_build_the_dockerfile_without_a_base_image_of_this_machine(hub: Hub, folder: Path):
    run("push", str(folder), "--no-interface")

    lines = hub.state.spaces["ada/tide_env"].files["Dockerfile"].decode().splitlines()
    froms = [line for line in lines if line.startswith("FROM")]
    assert froms == ["FROM python:3.11-slim AS openenv-base", "FROM openenv-base"]
    assert any(line.startswith("ARG OPENENV=openenv-rl==") for line in lines)
    assert lines[-1] == "ENV ENABLE_WEB_INTERFACE=false"


def test_a_base_image_replaces_that_of_the_dockerfile(hub: Hub, folder: Path):
    run("push", str(folder), "--base-image", "ghcr.io/ada/base:1")

    lines = hub.state.spaces["ada/tide_env"].files["Dockerfile"].decode().splitlines()
    assert [line for line in lines if line.startswith("FROM")] == ["FROM ghcr.io/ada/base:1"]
    assert lines[-1] == "ENV ENABLE_WEB_INTERFACE=true"


@pytest.mark.parametrize(
    ("options", "page", "path"),
    [((), b"false", None), (("--interface",), b"true", "/web")],
    ids=["by default", "with --interface"],
)
def test_the_dockerfiles_own_choice_of_a_page_stays_unless_an_option_replaces_it(hub, folder, options, page, path):
    dockerfile = folder / "server" / "Dockerfile"
    dockerfile.write_text(f"{dockerfile.read_text()}ENV ENABLE_WEB_INTERFACE=false\n")
    run("push", str(folder), *options)

    space = hub.state.spaces["ada/tide_env"]
    assert space.files["Dockerfile"].split(b"ENABLE_WEB_INTERFACE=")[-1].strip() == page
    assert header(space).get("base_path") == path


def test_hidden_files_caches_and_secrets_are_left_out(hub: Hub, folder: Path):
    left_out = [
        ".git/config", ".venv/lib/cacert.pem", ".env", "prod.env", "server/key.pem", "server/__pycache__/a.pyc",
        "secrets.json", "build/lib/x.py", "tide_env.egg-info/PKG-INFO", "notes/draft.txt", "id_rsa",
    ]  # fmt: skip
    sent = ["notes/final.txt", "secrets.py", ".dockerignore", "public.pem"]
    for path in [*left_out, *sent]:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("x")
    (folder / ".pushignore").write_text("# not for others\ndraft.*\n!public.pem\n")
    done = run("push", str(folder), "--exclude", ".pushignore")

    files = hub.state.spaces["ada/tide_env"].files
    assert {*left_out, ".pushignore"} & {*files} == set()
    assert {*sent} <= {*files}
    named = {line.rpartition(": ")[2] for line in done.stderr.splitlines() if line.startswith("left out")}
    assert named == {".env", "prod.env", "server/key.pem", "secrets.json", "id_rsa"}


def test_a_header_keeps_its_own_values_and_gets_what_it_lacks(hub: Hub, folder: Path):
    (folder / "README.md").write_text("---\ntitle: Ebb ✨\napp_port: 7860\ntags:\n- sea\n---\n# Ebb\n")
    run("push", str(folder), "--no-interface")

    space = hub.state.spaces["ada/tide_env"]
    assert header(space) == {"title": "Ebb ✨", "sdk": "docker", "app_port": 7860, "tags": ["sea", "openenv"]}
    assert space.files["README.md"].decode().endswith("---\n# Ebb\n")


@pytest.mark.finding("no command line holds a secret")
def test_a_secret_comes_from_its_environment_variable_and_on_the_command_line_is_warned_of(
    hub: Hub, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("KEY", "s3cret")
    quiet = run("push", str(folder), "-r", "tide", "--secret", "KEY")
    loud = run("push", str(folder), "-r", "ebb", "--secret", "KEY=s3cret")

    assert [hub.state.spaces[name].secrets for name in ("ada/tide", "ada/ebb")] == [{"KEY": "s3cret"}] * 2
    warning = "other users of this machine can read --secret KEY=...: export KEY, and write --secret KEY"
    assert (warning in quiet.stderr, warning in loud.stderr) == (False, True)
    assert "s3cret" not in quiet.stderr + loud.stderr


def test_settings_reach_the_space_before_its_files(hub: Hub, folder: Path):
    with (folder / "openenv.yaml").open("a") as manifest:
        manifest.write("variables:\n  STEPS: 5\n  LEVEL: low\n")
    done = run(
        "push", str(folder), "-r", "tide", "--private", "-H", "t4-small", "-e", "LEVEL=high=1", "--secret", "KEY=s3cret"
    )

    space = hub.state.spaces["ada/tide"]
    assert (space.private, space.hardware) == (True, "t4-small")
    assert (space.variables, space.secrets) == ({"STEPS": "5", "LEVEL": "high=1"}, {"KEY": "s3cret"})
    assert "s3cret" not in done.stdout + done.stderr
    calls = [call.split("/")[5] for call in hub.state.requests if call.count("/") > 4]
    assert calls.index("hardware") < calls.index("preupload") < calls.index("commit")


def test_a_second_push_deletes_only_what_a_pattern_names(hub: Hub, folder: Path):
    hub.state.spaces["ada/tide_env"] = HubSpace(files={"old.txt": b"x", "old.md": b"x", "client.py": b"x"})
    done = run("push", str(folder), "--delete", "*.txt", "--delete", "client.py")

    assert done.returncode == 0, done.stderr
    files = hub.state.spaces["ada/tide_env"].files
    assert ("old.txt" in files, "old.md" in files) == (False, True)
    assert files["client.py"] == (folder / "client.py").read_bytes()


def test_a_count_pushes_to_numbered_spaces(hub: Hub, folder: Path):
    done = run("push", str(folder), "--repo-id", "ada/tide", "--count", "2")

    assert {*hub.state.spaces} == {"ada/tide-1", "ada/tide-2"}
    assert [line.rpartition("/")[2] for line in done.stdout.splitlines()] == ["tide-1", "tide-2"]


def test_a_pull_request_leaves_the_space_as_it_is(hub: Hub, folder: Path):
    hub.state.spaces["bob/tide"] = HubSpace(files={"README.md": b"his"})
    done = run("push", str(folder), "--repo-id", "bob/tide", "--create-pr")

    assert f"{hub.url}/spaces/bob/tide/discussions/1" in done.stdout, done.stderr
    space = hub.state.spaces["bob/tide"]
    assert space.files == {"README.md": b"his"}
    assert "models.py" in space.pull_requests[0]


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--repo-id", "bob/tide"), 1, "cannot create the Space bob/tide"),
        (("--repo-id", "ada/none", "--create-pr"), 1, "cannot upload to ada/none"),
        (("--repo-id", "ada/public", "--private"), 1, "ada/public is public: make it private at"),
        (("--repo-id", "a/b/c"), 2, "write OWNER/NAME"),
    ],
)
def test_what_the_hub_refuses_ends_with_one_line(hub: Hub, folder: Path, options, code, words):
    hub.state.spaces["ada/public"] = HubSpace()
    done = run("push", str(folder), *options)

    assert done.returncode == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not any(space.files for space in hub.state.spaces.values())


@pytest.mark.parametrize("token", ["hf_of_no_user", ""])
def test_without_a_valid_token_the_remedy_is_named(hub: Hub, folder: Path, token, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", token)
    done = run("push", str(folder))

    assert done.returncode == 2
    assert "hf auth login" in done.stderr


def test_a_hub_that_does_not_answer_ends_with_one_line(hub: Hub, folder: Path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    done = run("push", str(folder))

    assert done.returncode == 1
    assert done.stderr.startswith("openenv: the Hub does not say which user this is")


def test_without_the_extra_the_error_names_it(folder: Path, monkeypatch):
    for package in ("huggingface_hub", "pathspec"):
        monkeypatch.setitem(sys.modules, package, None)
        done = run("push", str(folder))

        assert (done.returncode, install_line("hub") in done.stderr) == (1, True), package


DOCKER = """#!/bin/sh
echo "$@" >> "$DOCKER_LOG"
for argument in "$@"; do case "$argument" in --file=*) cat "${argument#--file=}" >> "$DOCKER_LOG.file" ;; esac; done
case "$1 $2" in "push $DOCKER_REFUSES") echo denied >&2; exit 3 ;; esac
"""


@pytest.fixture
def docker_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The calls of a command `docker` that does nothing else, beside the Dockerfiles it was given."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/docker").write_text(DOCKER)
    (tmp_path / "bin/docker").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    monkeypatch.setenv("DOCKER_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("DOCKER_REFUSES", "example.com/no/tide_env")
    return tmp_path / "log"


def test_a_registry_gets_the_image_in_place_of_the_hub(folder: Path, docker_log: Path):
    done = run("push", str(folder), "--registry", "docker.io/ada/", "--interface", "--base-image", "python:3.12")
    build, push = docker_log.read_text().splitlines()
    built = docker_log.with_name("log.file").read_text()

    assert (done.returncode, done.stdout) == (0, "pushed docker.io/ada/tide_env\n")
    assert build.startswith("build --tag=docker.io/ada/tide_env --file=")
    assert build.endswith(f" {folder}")
    assert push == "push docker.io/ada/tide_env"
    assert "FROM python:3.12" in built
    assert built.endswith("ENV ENABLE_WEB_INTERFACE=true\n")


def test_a_registry_that_refuses_the_image_ends_with_one_line(folder: Path, docker_log: Path):
    done = run("push", str(folder), "--registry", "example.com/no")

    assert done.returncode == 1
    assert "docker push of example.com/no/tide_env failed with code 3" in done.stderr
    assert "docker login" in done.stderr
    assert "ENV ENABLE" not in docker_log.with_name("log.file").read_text().split("FROM")[-1]


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--registry", "docker.io/ada", "--count", "2"], 1, "--count and --registry: give one of them"),
        (["--registry", "docker.io/ada", "--secret", "A=s3cret"], 2, "--secret: of a Space only"),
        (["--registry", "docker.io/ada", "--repo-id", "a/b", "--delete", "*"], 2, "--repo-id, --delete: of a Space"),
        (["--interface", "--no-interface"], 1, "give one of them"),
        (["--create-pr", "--count", "2"], 1, "give one of them"),
        (["--create-pr", "--private", "--env-var", "A=1"], 2, "--private, --env-var: a pull request"),
        (["--env-var", "A"], 2, "write KEY=VALUE"),
        (["--secret", "s3cret"], 2, "(not shown): write KEY, with the value in the environment variable KEY"),
        (["--exclude", "none.txt"], 2, "there is no file"),
        (["--count", "0"], 2, "--count"),
    ],
)
def test_options_that_exclude_each_other_are_refused(folder: Path, options, code, words):
    done = run("push", str(folder), *options)

    assert done.returncode == code
    assert words in " ".join(done.stderr.replace("│", " ").split())
    assert "s3cret" not in done.stderr


@pytest.mark.parametrize(
    ("missing", "code", "words"),
    [
        ("", 2, "there is no folder"),
        ("openenv.yaml", 1, "has no openenv.yaml"),
        ("server/Dockerfile", 1, "has no Dockerfile and no server/Dockerfile"),
    ],
)
def test_a_folder_that_can_be_no_space_is_refused(folder: Path, missing, code, words):
    if missing:
        (folder / missing).unlink()
    done = run("push", str(folder if missing else folder / "none"))

    assert done.returncode == code
    assert words in " ".join(done.stderr.replace("│", " ").split())


@pytest.mark.parametrize(
    ("readme", "words"),
    [("---\nsdk: gradio\n---\n", "write `sdk: docker`"), ("---\na: [\n---\n", "is not YAML")],
)
def test_the_header_of_another_kind_of_space_is_refused(folder: Path, readme, words):
    (folder / "README.md").write_text(readme)
    done = run("push", str(folder))

    assert (done.returncode, words in done.stderr) == (1, True), done.stderr


def test_a_link_is_refused_because_its_target_may_be_anything(folder: Path):
    (folder / "data").symlink_to("/etc")
    done = run("push", str(folder))

    assert done.returncode == 1
    assert "data is a link" in done.stderr
