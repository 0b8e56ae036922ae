"""The command line as a whole: help, and errors in one line."""

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

import openenv
from openenv.cli.main import app
from openenv.installation import install_line
from tests.cli.commands import run


@pytest.mark.parametrize("verb", ["envs", "serve", "eval", "replay", "train", "doctor"])
def test_each_help_shows_an_example(verb):
    shown = run(verb, "--help")
    assert shown.returncode == 0
    assert f"openenv {verb}" in shown.stdout.split("Example")[1]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["eval", "--policy", "smrt"], "Did you mean 'smart'?"),
        (["eval", "openspeel"], "Did you mean 'openspiel'?"),
        (["eval", "--policy", "llm:qwen"], "llm:MODEL@URL"),
        (["eval", "--reset", "opponent"], "write KEY=VALUE"),
        (["eval", "http://127.0.0.1:9"], "is the server running"),
        (["serve", "nothing"], "is not among "),
        (["serve", "json:nothing"], "module json has no 'nothing': write the name of an application, an Env"),
        (["serve", "json.nothing"], "Write your own as MODULE:NAME, such as json:nothing, or as a folder with openenv"),
        (["serve", "nothing.at:all"], "there is no module 'nothing': run in the folder that has it, or install its"),
        (["serve", "json.py:Env"], "json.py:Env: there is no file json.py. Write FILE.py:NAME"),
        (["serve", "my/env.py:Env"], "my/env.py:Env: there is no file my/env.py"),
        (["serve", ":Env"], "'' before the colon is no name of a module: write my_env.environment:Env"),
        (["serve", "json:"], "'json:' names nothing in a module: write MODULE:NAME, such as json:app"),
        (
            ["serve", "asyncio:get_running_loop"],
            "asyncio:get_running_loop raised RuntimeError when the server called it",
        ),
        (["serve", "openenv.envs.echo_env.server.app:app", "--workers", "0"], "workers=0: give 1"),
        (["serve", "json:loads"], "json:loads needs arguments (s)"),
        (
            ["serve", "json:JSONDecoder"],
            "json:JSONDecoder returned JSONDecoder, which cannot be served: derive it from Env",
        ),
        (["serve", "sys:path"], "sys:path is of type list, which cannot be served"),
        (["serve", "os:getcwd"], "os:getcwd returned str, which cannot be served"),
        (["serve", "./nowhere"], "nowhere has no openenv.yaml"),
        (["serve", "openenv.envs.echo_env.server.app:app", "--max-sessions", "1"], "has limits of its own"),
    ],
)
def test_a_wrong_argument_ends_with_one_line_and_the_remedy(args, words, tmp_path):
    done = run(*args, cwd=tmp_path)

    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("args", "words"), [(["replay", "."], "is a directory"), (["runs", __file__], "is a file")])
def test_a_file_in_place_of_a_folder_is_a_wrong_argument_and_the_other_way_round_too(args, words):
    done = run(*args)

    assert done.returncode == 2
    assert words in " ".join(done.stderr.replace("│", " ").split())


def test_the_command_runs_without_any_extra():
    extras = (
        "numpy", "torch", "transformers", "docker", "kubernetes", "huggingface_hub", "fastmcp", "gymnasium", "pyspiel",
        "matplotlib", "PIL", "datasets", "pyarrow", "minari", "verifiers", "trl", "gradio",
    )  # fmt: skip
    program = f"import sys; sys.modules.update(dict.fromkeys({extras!r})); from openenv.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", program, "--help"], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert "export" in done.stdout


def _commands(group):
    for name, command in group.commands.items():
        yield from (
            ((f"{name} {one}", found) for one, found in _commands(command)) if hasattr(command, "commands") else ()
        )
        yield name, command


@pytest.mark.finding("the command line has a version and a doctor, and shows each default once")
def test_no_default_is_shown_twice():
    twice = [
        f"{name} {parameter.name}"
        for name, command in _commands(get_command(app))
        for parameter in command.params
        if "(default" in (parameter.help or "")
        and parameter.show_default
        and parameter.default not in (None, False, [], ())
    ]

    assert twice == []


@pytest.mark.finding("the command line has a version and a doctor, and shows each default once")
def test_the_version_is_that_of_the_package():
    assert run("--version").stdout == f"{openenv.__version__}\n"


def _version_without_miniwob(name, known=importlib.metadata.version):
    if name == "miniwob":
        raise importlib.metadata.PackageNotFoundError(name)
    return known(name)


@pytest.mark.finding("the command line has a version and a doctor, and shows each default once")
def test_the_doctor_names_what_is_missing_and_how_to_get_it(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    monkeypatch.setenv("HF_TOKEN", "a secret")
    monkeypatch.setattr(importlib.metadata, "version", _version_without_miniwob)
    shown = run("doctor", "--json")
    rows = {row["part"]: row for row in json.loads(shown.stdout)}

    remedies = [row["remedy"] for row in rows.values() if not row["is_there"]]
    lines = [remedy for remedy in remedies if remedy.startswith("pip install -e")]
    assert install_line("browser") in lines
    table = run("doctor").stdout
    assert [line for line in lines if line not in table] == []
    assert rows["openenv"]["found"] == openenv.__version__
    assert (rows["extra openspiel"]["is_there"], rows["extra train"]["is_there"]) == (True, True)
    browser = rows["extra browser"]
    assert (browser["found"], browser["remedy"]) == ("without miniwob", install_line("browser"))
    assert rows["Chromium"]["remedy"].startswith("apt-get install chromium")
    assert "Is Docker installed" in rows["Docker"]["remedy"]
    assert rows["HF_TOKEN"]["is_there"]
    assert "a secret" not in shown.stdout


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("ev", ["eval"]),
        ("eval gr", ["grid_world"]),
        ("train ma", ["maze"]),
        ("show ./my", []),
        ("eval echo --policy random,lea", ["random,learning"]),
    ],
)
def test_the_shell_completes_commands_environments_and_policies(typed, completed, monkeypatch):
    words = f"openenv {typed}"
    monkeypatch.setenv("_OPENENV_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))

    program = Path(sys.executable).with_name("openenv")
    shown = subprocess.run([program], capture_output=True, text=True, timeout=120, check=True)

    assert shown.stdout.split() == completed


def test_no_command_waits_for_libraries_that_only_others_need():
    program = "import sys, openenv.cli.main; print(*{'fastapi', 'jinja2', 'torch', 'scipy'} & set(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)

    assert loaded.stdout.split() == []
