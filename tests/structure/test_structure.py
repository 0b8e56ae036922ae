"""The shape of the source tree: small folders, and imports without circles."""

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

from tests.structure.record_architecture import PAGE, recorded

ROOT = Path(__file__).parents[2]
MAX_FILES = 13


@pytest.mark.parametrize("tree", ["src/openenv", "tests", "benchmarks", "website"])
def test_no_folder_has_more_than_13_python_files(tree):
    files = Counter(path.parent.relative_to(ROOT).as_posix() for path in (ROOT / tree).rglob("*.py"))
    assert {folder: count for folder, count in files.items() if count > MAX_FILES} == {}


def test_no_module_imports_itself_by_way_of_others():
    graph = grimp.build_graph("openenv", exclude_type_checking_imports=True)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_no_module_starts_one_of_a_higher_layer_by_its_name():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = next(contract["layers"] for contract in settings["contracts"] if contract["name"] == "layers")
    height = {layer: len(layers) - place for place, layer in enumerate(layers)}
    source = ROOT / "src" / "openenv"
    found = [
        f"{path.relative_to(ROOT)}: {named}"
        for path in source.rglob("*.py")
        if (own := path.relative_to(source).parts[0].removesuffix(".py")) not in ("__init__", "compat")
        for named in modules_named_in(path.read_text(encoding="utf-8"))
        if height.get(named.split(".")[1], 0) > height[own]
    ]
    assert found == [], "move what is started below what starts it"


def modules_named_in(program: str) -> Iterator[str]:
    """The modules of this package in strings of a program, or `openenv.cli` where the command is started."""
    for node in ast.walk(ast.parse(program)):
        started: list[ast.expr] = []
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if re.fullmatch(r"openenv(\.\w+)+(:\w+)?", node.value):
                yield node.value.partition(":")[0]
            elif "-m openenv " in node.value:
                yield "openenv.cli"
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("LocalServer", "module_command")):
            started = [*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg == "module")]
        elif isinstance(node, ast.List | ast.Tuple):
            texts = [ast.unparse(one) for one in node.elts]
            started = [one for before, one in zip(["'-m'", *texts], node.elts, strict=False) if before == "'-m'"]
        yield from ("openenv.cli" for one in started if ast.unparse(one) == "'openenv'")


@pytest.mark.parametrize(
    "program",
    [
        'LocalServer("openenv", ["serve"])',
        'local_process.LocalServer(module="openenv")',
        'module_command("openenv", 8000)',
        'command = [sys.executable, "-m", "openenv", "serve"]',
        'command = ("openenv", "serve")',
        'os.system("python -m openenv serve")',
        'module = "openenv.cli"',
    ],
)
def test_a_start_of_the_command_is_seen(program):
    assert list(modules_named_in(program)) == ["openenv.cli"]


def test_the_architecture_has_the_tree_and_the_layers_of_the_code():
    assert PAGE.read_text(encoding="utf-8") == recorded(), "run python -m tests.structure.record_architecture"


def test_no_server_closes_the_log_handlers_of_its_program():
    calls = [
        (path.relative_to(ROOT).as_posix(), {keyword.arg for keyword in node.keywords})
        for path in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("uvicorn.Config", "uvicorn.run")
    ]
    assert len(calls) >= 2
    assert [path for path, keywords in calls if "log_config" not in keywords] == [], "pass log_config=None to uvicorn"


def test_no_console_takes_a_part_of_a_name_for_an_emoji():
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in (ROOT / "src").rglob("*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if "Console(" in line and "emoji=False" not in line
    ]
    assert found == [], "notes.py:Notes: would be shown with notes in the place of the class"


CLOCKS = {
    "agents/capture/sessions.py": "what the published sessions have",
    "agents/endpoint/dialect.py": "the time of a response, a field of OpenAI's APIs",
    "agents/llm/http.py": "the date of a Retry-After header",
    "cli/train.py": "the time at which a file was changed",
    "core/env_server/http_server.py": "what SessionInfo has",
    "core/env_server/sessions/recording.py": "the time of a recorded frame",
    "dialects/nemo_gym_environment.py": "the time of a response, a field of OpenAI's APIs",
    "dialects/verifiers_rollout.py": "a field of the other library's response",
    "rl/waiting/status.py": "the age of a file that another process has written",
    "rl/waiting/waits.py": "the time of an event, for people",
    "rl/waiting/watch.py": "the time of a status, for people",
}
"""Where the clock that may jump is asked, and for what. All that waits measures with `time.monotonic`."""


def test_no_wait_depends_on_a_clock_that_may_jump():
    asked = {
        path.relative_to(ROOT / "src/openenv").as_posix()
        for path in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "time.time"
    }
    assert asked == CLOCKS.keys()
