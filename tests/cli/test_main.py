"""The command line as a whole: help, and errors in one line."""

import subprocess
import sys

import pytest

from tests.cli.commands import run


@pytest.mark.parametrize("verb", ["envs", "serve", "eval", "replay", "train"])
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
        (["serve", "json:JSONDecoder"], "json:JSONDecoder returned JSONDecoder, which cannot be served: give an app"),
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


def test_the_command_runs_without_any_extra():
    extras = (
        "numpy", "torch", "transformers", "docker", "kubernetes", "huggingface_hub", "fastmcp", "gymnasium", "pyspiel",
        "matplotlib", "PIL", "datasets", "pyarrow", "minari", "verifiers", "trl", "gradio",
    )  # fmt: skip
    program = f"import sys; sys.modules.update(dict.fromkeys({extras!r})); from openenv.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", program, "--help"], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert "export" in done.stdout
