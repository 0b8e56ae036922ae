"""Every command that README and docs print runs as it is printed, or the table below names why it is not run here.

The commands of a page are called in its order, in one folder, with the files that the page lets a reader write. A
server answers at the address that the page names until the next server of that port starts, or the page ends. One
model endpoint and one Hub of this machine stand for those of the reader.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from filelock import FileLock

from tests.acceptance.page_folders import FILES, make_folder
from tests.acceptance.page_servers import Servers
from tests.acceptance.printed_commands import (
    ROOT,
    Printed,
    check_parts,
    commands_in_sentences,
    commands_of,
    printed_file,
    unknown_parts,
)
from tests.chat_server import ChatService, call
from tests.cli.hub.local_hub import TOKEN, HubSpace, LocalHub
from tests.conftest import running

pytestmark = pytest.mark.process

PAGES = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md"))]
ENVIRONMENTS = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("src/openenv/envs/*/README.md"))
COMMANDS = {page: found for page in PAGES if (found := list(commands_of(page)))}
BLACKJACK = "examples/grpo_blackjack/blackjack.yaml"
SMOLLM2 = "models/smollm2-135m"
ENDPOINT = "http://localhost:8001/v1"


@dataclass(frozen=True)
class NotRun:
    """Why a command is not run, and the test that runs what it does."""

    reason: str
    tested_by: str | None = None


_INSTALLS = NotRun("it changes this Python", "tests/test_install_line.py")
_TRAINS = NotRun("it trains for minutes", "tests/cli/training/test_train.py")
_TRAINS_A_MODEL = NotRun("it trains a pretrained model for an hour", "tests/cli/training/test_train_without_file.py")
_CERTIFIES = NotRun("it trains for minutes", "tests/certification/test_learning.py")
_MEASURES = NotRun("it measures for minutes, on a quiet machine")
_BUILDS = NotRun("it needs a container engine with BuildKit and a registry", "tests/cli/containers/test_build.py")
_NEEDS_NEMO_GYM = NotRun("it needs a server of NeMo Gym", "tests/integrations/dialects/test_nemo_gym.py")
NOT_RUN = {
    "make demo": _TRAINS,
    "make test": NotRun("it runs this test"),
    "pip install -c constraints.txt -e .[openspiel,plots]": _INSTALLS,
    "pip install -c constraints.txt -e .[openspiel,vector,plots]": _INSTALLS,
    "pip install -e .[wandb,trackio,tensorboard]": _INSTALLS,
    "openenv certify my_env": _CERTIFIES,
    "openenv certify my_env --publish ./environments": _CERTIFIES,
    "openenv certify ./my_env --publish ./environments": _CERTIFIES,
    "openenv certify openspiel --game tic_tac_toe": _CERTIFIES,
    "openenv eval nemo-gym:http://localhost:8000?data=example.jsonl --policy random --episodes 5": _NEEDS_NEMO_GYM,
    "openenv serve nemo-gym:http://localhost:8000?data=example.jsonl&max_steps=20 --port 8005": _NEEDS_NEMO_GYM,
    "openenv build echo": _BUILDS,
    "openenv build ./my_env --tag owner/my-env:1": _BUILDS,
    "openenv eval verifiers:wordle --policy llm:qwen3@http://localhost:8001/v1": NotRun(
        "it needs the environment wordle, which verifiers installs from its hub",
        "tests/integrations/dialects/test_verifiers.py",
    ),
    f"openenv train {BLACKJACK} --env verifiers:my_env.py": _TRAINS,
    "openenv train change_env/train.yaml": NotRun(
        "it trains for minutes", "tests/acceptance/test_authors_write_an_environment.py"
    ),
    f"openenv train {BLACKJACK}": _TRAINS,
    f"openenv train {BLACKJACK} --game catch --steps 100": _TRAINS,
    f"openenv train {BLACKJACK} --env my_env.py:MyEnvironment --seeds 3": _TRAINS,
    f"openenv train {BLACKJACK} --resume": _TRAINS,
    f"WANDB_MODE=offline openenv train {BLACKJACK}": NotRun(
        "it trains for minutes", "tests/rl/reports/test_trackers.py"
    ),
    f"openenv train guess --model {SMOLLM2}": _TRAINS_A_MODEL,
    f"openenv train openspiel --game blackjack --model {SMOLLM2}": _TRAINS_A_MODEL,
    "openenv train tic_tac_toe.yaml": _TRAINS_A_MODEL,
    "openenv train start.yaml": _TRAINS,
    "pip install -c constraints.txt -e .[train]": _INSTALLS,
    f"openenv sft episodes/1-mcts.jsonl --model {SMOLLM2} --out models/tic-tac-toe --min-return 1": NotRun(
        "it trains a pretrained model for minutes", "tests/rl/training/test_demonstrations.py"
    ),
    "torchrun --nproc-per-node 2 -m openenv train run.yaml": NotRun(
        "it trains for minutes", "tests/rl/engines/test_torchrun.py"
    ),
    "torchrun --nproc-per-node 4 -m openenv train run.yaml": NotRun(
        "it needs GPUs", "tests/rl/engines/test_torchrun.py"
    ),
    "sbatch run.sh": NotRun("it needs Slurm", "tests/cli/jobs/test_deploy_slurm.py"),
    "sbatch --test-only run.sh": NotRun("it needs Slurm", "tests/cli/jobs/test_deploy_slurm.py"),
    "kubectl apply --dry-run=server -f job.yaml": NotRun(
        "it needs a cluster with KubeRay", "tests/hosting/kubernetes/test_ray_job.py"
    ),
    "make bench": _MEASURES,
    "python -m benchmarks steps vector": _MEASURES,
    "python -m benchmarks.capacity": _MEASURES,
    "python -m benchmarks.workers": _MEASURES,
    "python -m benchmarks.agents": _MEASURES,
    "python -m benchmarks.fairness": _MEASURES,
    "python -m benchmarks.fleet": _MEASURES,
    "python -m benchmarks.large_model": _MEASURES,
    "python -m benchmarks.abuse": _MEASURES,
    "python -m benchmarks.traces.step": _MEASURES,
    "python -m benchmarks.chaos": _MEASURES,
    "python -m benchmarks.rollouts --vllm .venv-vllm/bin/python": _MEASURES,
    "python -m benchmarks.generators --vllm .venv-vllm/bin/python": _MEASURES,
    "trackio show --project openenv": NotRun("it needs the extra trackio", "tests/rl/reports/test_trackers.py"),
    "vllm serve MODEL --enable-lora --max-lora-rank 16 --max-loras 4 --enable-scale-out": NotRun("it needs a GPU"),
}
"""By the command, without its comment."""

SERVES = {
    "openenv serve openspiel --game blackjack --port 8004": "http://localhost:8004/health",
    "openenv serve verifiers:my_env.py?num_examples=100 --port 8004": "http://localhost:8004/health",
    "openenv serve harbor:examples/harbor --port 8006": "http://localhost:8006/health",
    "openenv serve calendar --dialect ors --port 8080": "http://localhost:8080/health",
    "openenv serve ./my_env --port 8000": "http://localhost:8000/health",
    "openenv serve ./change_env --port 8000 &": "http://localhost:8000/health",
    "openenv serve ./tide_env --sandbox": "http://localhost:8000/health",
    "openenv serve pulled/my_env --sandbox": "http://localhost:8000/health",
    "OPENENV_TOKEN=secret openenv serve guess --port 8000": "http://localhost:8000/health",
    "openenv runs": "http://localhost:8080/web/",
    "openenv replay --web recordings/1f3a.jsonl": "http://localhost:8080/web/",
    "openenv eval openspiel --game catch --policy random,smart,learning,llm:qwen3@http://localhost:8001/v1 --web": (
        "http://localhost:8080/web/"
    ),
    "openenv serve openspiel --game tic_tac_toe": "http://127.0.0.1:8000/web",
    "openenv serve openspiel --game chess --workers 2": "http://localhost:8000/health",
    "openenv serve my_env.server.app:app --workers 4": "http://localhost:8000/health",
    "openenv serve guess_env.server.app:app --workers 2": "http://localhost:8000/docs",
    "tensorboard --logdir runs": "http://localhost:6006/",
}
"""Commands that run until Ctrl-C, and an address that they answer."""

BEFORE = {"openenv check http://localhost:8000": ("openenv serve ./my_env", "http://localhost:8000/health")}
"""Servers of the reader: the page's command is for one that runs already."""

LONG = {
    "openenv check harbor:examples/harbor",
    "openenv check my_env",
    "openenv check guess_env",
    "openenv serve verifiers:my_env.py?num_examples=100 --port 8004",
    "openenv eval ors:http://localhost:8080 --policy random",
    "openenv serve my_env.server.app:app --workers 4",
    "openenv check http://localhost:8000",
    "openenv check ./change_env",
    "openenv check ./cliffs_env",
    "openenv check point_mass.py:PointMass",
    "openenv check library.py:Library",
    "openenv eval ./change_env --policy random,learning --episodes 2000",
    "openenv eval openspiel --game blackjack --policy random,chart,llm:qwen3@http://localhost:8001/v1",
    f"openenv train openspiel --game blackjack --model {SMOLLM2} --plan",
    f"openenv train openspiel --game tic_tac_toe --model {SMOLLM2} --plan",
}
"""Commands that take ten seconds of a core. `make test-slow` runs them; no later command of their pages needs them."""

TIDE = {
    "openenv.yaml": b"name: tide_env\napp: server.app:app\n",
    "server/app.py": b"from openenv import create_app\n"
    b"from openenv.envs.echo_env.server.environment import EchoEnvironment\n\n"
    b"app = create_app(EchoEnvironment)\n",
    "README.md": b"---\nsdk: docker\n---\n",
    "Dockerfile": b"FROM x\n",
}
"""A Space that is pulled."""


def test_the_tables_have_no_command_that_is_not_printed() -> None:
    printed = {command.key for commands in COMMANDS.values() for command in commands}

    assert sorted({*NOT_RUN, *SERVES, *BEFORE, *LONG} - printed) == []


def test_the_tests_that_the_table_names_are_there() -> None:
    tests = {why.tested_by for why in NOT_RUN.values() if why.tested_by is not None}

    assert [test for test in sorted(tests) if not (ROOT / test).is_file()] == []


@pytest.mark.parametrize("page", [*COMMANDS, *ENVIRONMENTS])
def test_a_printed_command_has_options_targets_extras_and_modules_that_exist(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "episodes").mkdir()
    (tmp_path / "episodes/1-mcts.jsonl").touch()  # of the command before
    for command in commands_of(page):
        if command.key in {*NOT_RUN, *LONG} or page in ENVIRONMENTS:
            check_parts(command)


@pytest.mark.parametrize(
    "text",
    [
        "openenv trian guess", "openenv train guess --stepz 3", "openenv train guess --steps three", "make nothing",
        "pip install -e '.[nothing]'", "pip install 'openenv-rl[train]'", "python -m benchmarks nothing",
        "python -m benchmarks.nothing", "nothing",
    ],
)  # fmt: skip
def test_a_command_with_a_part_that_does_not_exist_is_found(text: str) -> None:
    with pytest.raises(Exception, match=r"(?i)nothing|trian|stepz|valid integer|no package index"):
        check_parts(Printed(text, 0))


@pytest.mark.parametrize("page", [*PAGES, *ENVIRONMENTS])
def test_a_command_in_a_sentence_has_options_that_exist(page: str) -> None:
    unknown = {command: unknown_parts(command) for command in commands_in_sentences(page)}

    assert {command: parts for command, parts in unknown.items() if parts} == {}


@pytest.fixture
def ports() -> Iterator[None]:
    """The ports that the pages name, which one process of this machine uses at a time."""
    with FileLock(Path(tempfile.gettempdir()) / "openenv-ports-of-the-pages.lock"):
        yield


@pytest.fixture
def variables(ports: None, serving, tmp_path: Path) -> dict[str, str]:
    """The environment of the commands: this Python's programs, a Hub with a Space and its user's token."""
    hub = LocalHub(organizations=["team", "me"])
    hub.spaces |= {"owner/my-env": HubSpace(), "other/my-env": HubSpace(), "owner/tide-env": HubSpace(files=TIDE)}
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HF_ENDPOINT": serving(hub.app), "HF_TOKEN": TOKEN, "HF_HOME": str(tmp_path / "hub"),
        "OPENAI_API_KEY": "a secret", "KEY": "a secret", "NO_PROXY": "127.0.0.1,localhost",
    }  # fmt: skip


def _reply(body: dict[str, object]) -> str | dict[str, object]:
    """What the model replies: it calls a tool, where there are some, or stands."""
    return call("finish", {}) if body.get("tools") else "stand"


def _run_pages(pages: Iterable[str]) -> list[Any]:
    """Pages as parameters; a mark names those that need the pretrained model."""
    found = {page: [each.key for each in COMMANDS[page] if each.key not in NOT_RUN] for page in pages}
    mark = pytest.mark.real_model
    return [pytest.param(page, marks=[mark] if SMOLLM2 in " ".join(keys) else []) for page, keys in found.items()]


@pytest.mark.parametrize("page", _run_pages(COMMANDS))
@pytest.mark.finding("training needs no file, and printed commands run")
def test_the_commands_of_a_page_run_as_they_are_printed(page: str, variables: dict[str, str], tmp_path: Path) -> None:
    _walk(page, {*NOT_RUN, *LONG}, variables, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("page", _run_pages(page for page in COMMANDS if LONG & {each.key for each in COMMANDS[page]}))
def test_long_commands_of_a_page_run_as_they_are_printed(page: str, variables: dict[str, str], tmp_path: Path) -> None:
    _walk(page, set(NOT_RUN), variables, tmp_path)


def _walk(page: str, left_out: set[str], variables: dict[str, str], tmp_path: Path) -> None:
    """Write the files and call the commands of a page in its order."""
    folder = tmp_path / "reader"
    folder.mkdir()
    make_folder(page, folder)
    files = {path: printed_file(page, *place) for path, place in FILES.get(page, {}).items()}
    with ExitStack() as stack:
        servers = Servers(folder, variables)
        stack.callback(servers.stop)
        if any(ENDPOINT in command.text for command in COMMANDS[page]):
            stack.enter_context(running(ChatService(_reply).app(), port=urlsplit(ENDPOINT).port))
        for command in COMMANDS[page]:
            for path in [path for path, (position, _) in files.items() if position < command.position]:
                (folder / path).write_text(files.pop(path)[1], encoding="utf-8")
            if command.key not in left_out:
                _run(command, servers, folder, variables)


def _run(command: Printed, servers: Servers, folder: Path, variables: dict[str, str]) -> None:
    if command.key in BEFORE:
        servers.start(*BEFORE[command.key])
    if command.key in SERVES:
        servers.start(command.text, SERVES[command.key])
        return
    ran = subprocess.run(
        ["bash", "-c", command.text], cwd=folder, env=variables, capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, f"{command.text}\n{ran.stdout}{ran.stderr}"
