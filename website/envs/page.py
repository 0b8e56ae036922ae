"""A page for each bundled environment, all of one shape, and the list of them."""

import json
import re
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from openenv.catalog.bundled import bundled
from openenv.core.env_server.types import Action, Observation, State
from openenv.envs.catalog import CatalogEntry, entries, load_object
from website.envs.card import card_section
from website.envs.messages import message_section
from website.envs.server import ServerSource
from website.links import Links
from website.replay import replay_section
from website.source import doc_of
from website.tables import code, table

_ROOT = Path(__file__).parents[2]
_LICENCES: Mapping[str, Mapping[str, str]] = yaml.safe_load(
    (_ROOT / "website/licences.yaml").read_text(encoding="utf-8")
)
_HEADING = re.compile(r"^(#+ )", re.MULTILINE)
_REWARD = re.compile(r"\brewards?\b", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`])")
_FENCE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
_MOST_TASKS = 120
_SHOWN = _ROOT / "tests/envs/shown"
"""What `openenv show` printed for each environment: a test compares it with what it prints now."""
_FRAME = re.compile(r"^╭─ (?P<role>\w+) ─+╮\n(?P<body>(?:│.*│\n)+)╰─+╯$", re.MULTILINE)


def readmes() -> dict[str, str]:
    """The page of each environment by its folder and by its README, for links."""
    places = {f"src/openenv/envs/{entry.name}_env": f"environments/{entry.name}.md" for entry in entries()}
    return {**places, **{f"{folder}/README.md": page for folder, page in places.items()}}


def pages(links: Links) -> dict[str, str]:
    """The pages by their paths. links: of the READMEs, which the pages contain."""
    known = entries()
    return {
        "environments/index.md": _index(known),
        **{f"environments/{entry.name}.md": _page(entry, links) for entry in known},
    }


def _index(known: list[CatalogEntry]) -> str:
    cards = bundled()
    rows = [
        (f"[{entry.name}]({entry.name}.md)", entry.description, code(entry.extra) if entry.extra else "none needed",
         cards.find(entry.name).proofs)
        for entry in known
    ]  # fmt: skip
    return (
        "# Environments\n\n"
        f"{len(known)} environments come with the package. `openenv envs` lists them, and `openenv serve NAME` starts "
        "one. Their pages have one shape: what a policy sees and does, reward and end, options and tasks, and the "
        "prompt as a model reads it, and what [`openenv certify`](../certify.md) has proved.\n\n"
        + table(("Environment", "What it is", "Extra", "Proofs"), rows)
    )


def _page(entry: CatalogEntry, links: Links) -> str:
    server = ServerSource(entry)
    readme = f"src/openenv/envs/{entry.name}_env/README.md"
    parts = [
        f"# {entry.name}",
        f"{entry.description.rstrip('.')}.",
        _facts(entry),
        "## What a policy sees and does",
        *(message_section(kind, message) for kind, message in _messages(entry)),
        replay_section(entry.name),
        "## Reward and end",
        doc_of(server.environment).markdown(),
        _rewards((_ROOT / readme).read_text(encoding="utf-8")),
        server.success(),
        "## A reset",
        server.reset(),
        "## Options of the server",
        server.options(),
        "## Tasks",
        _tasks(entry),
        _players(entry),
        card_section(entry),
        "## The prompt",
        _prompt(entry.name),
        "## More about it",
        _readme(links, readme, f"environments/{entry.name}.md"),
    ]
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def _facts(entry: CatalogEntry) -> str:
    install = f"`pip install -e '.[{entry.extra}]'`" if entry.extra else "nothing beside the package"
    client = entry.client.partition(":")[2]
    rows = [
        ("Install", install),
        (
            "Programs",
            ", ".join(code(name) for name in (*entry.programs, *(f"{each} (Debian)" for each in entry.debian))),
        ),
        ("Licence", _licence(entry)),
        ("Serve", code(f"openenv serve {entry.name}")),
        ("Client", code(f"from {entry.package} import {client}")),
        ("Text interface", code(entry.text) if entry.text else "derived from the messages"),
        ("Keyword of resets for a game or task", code(entry.game_keyword) if entry.game_keyword else ""),
    ]
    return "\n".join(f"- **{name}**: {text}" for name, text in rows if text)


def _licence(entry: CatalogEntry) -> str:
    others = _LICENCES.get(entry.extra, {}) if entry.extra else {}
    return ", ".join(["BSD-3-Clause", *(f"{name}: {licence}" for name, licence in others.items())])


def _messages(entry: CatalogEntry) -> Iterator[tuple[str, type[Any]]]:
    """The classes of the client's type arguments."""
    (base,) = load_object(entry.client).__orig_bases__
    kinds = {"Action": Action, "Observation": Observation, "State": State}
    for (kind, usual), message in zip(kinds.items(), typing.get_args(base), strict=True):
        yield kind, _observation(entry) if message is Any else (message if issubclass(message, usual) else usual)


def _observation(entry: CatalogEntry) -> type[Any]:
    """What the reset of an environment of tools returns: the class of its models that is an observation."""
    models = vars(__import__(f"{entry.package}.models", fromlist=["models"]))
    return next(
        each
        for each in models.values()
        if isinstance(each, type) and issubclass(each, Observation) and each.__module__ == f"{entry.package}.models"
    )


def _tasks(entry: CatalogEntry) -> str:
    recorded = _ROOT / f"website/tasks/{entry.name}.json"  # of those whose extra is not installed here
    tasks = json.loads(recorded.read_text(encoding="utf-8")) if recorded.is_file() else entry.load_tasks()
    if len(tasks) == 1:
        return "There is one task."
    rows = [
        (code(name), ", ".join(code(f"{key}={value!r}") for key, value in reset.items()))
        for name, reset in tasks.items()
    ]
    more = f"\n\n`openenv envs --list` names all {len(tasks)}." if len(tasks) > _MOST_TASKS else ""
    shown = table(("Task", "Keywords"), rows[:_MOST_TASKS])
    return f"{len(tasks)} tasks, with their keywords of `reset`:\n\n{shown}{more}"


def _players(entry: CatalogEntry) -> str:
    """What is known to play: policies of the environment, and the tasks that are measured with their optima."""
    rows = [
        (code(name), f"{given['best_return']:.4g}" if given.get("best_return") is not None else "",
         code(given["heuristic"].partition(":")[2]) if given.get("heuristic") else "")
        for name, given in entry.measured.items()
    ]  # fmt: skip
    policies = ", ".join(code(name) for name in entry.policies)
    optimum = entry.optimum and code(entry.optimum.partition(":")[2])
    parts = [
        "## Known players" if rows or policies else "",
        f"Policies of `openenv eval --policy` for it alone: {policies}." if policies else "",
        f"`openenv envs --measure --only {entry.name}` plays these tasks at random and, where there is one, by a "
        "heuristic." if rows else "",
        table(("Task", "Best mean return", "Heuristic"), rows),
        f"The exact optimum of other tasks is computed by {optimum}." if optimum else "",
    ]  # fmt: skip
    return "\n\n".join(part.strip() for part in parts if part.strip())


def _rewards(readme: str) -> str:
    """What a README has about rewards: sentences, and rows of its tables, each once."""
    lines = []
    for paragraph in re.split(r"\n\n|\n(?=- )", _FENCE.sub("", readme)):
        if paragraph.lstrip().startswith("|"):
            rows = [[part.strip() for part in row.strip("| ").split(" | ")] for row in paragraph.splitlines()]
            lines += [f"{row[0]}: {row[-1]}" for row in rows if _REWARD.search(row[0])]
        elif not paragraph.startswith("#") or "\n" in paragraph:
            prose = " ".join(line for line in paragraph.splitlines() if not line.startswith(("#", "|")))
            lines += [each for each in _SENTENCE.split(" ".join(prose.split())) if _REWARD.search(each)]
    return "\n".join(
        f"- {line.removeprefix('- ')}" for line in dict.fromkeys(lines) if "](" not in line and line[-1] != ":"
    )


def _readme(links: Links, readme: str, page: str) -> str:
    """The README without its title, each heading a level lower."""
    text = (_ROOT / readme).read_text(encoding="utf-8").partition("\n")[2]
    resolved = links.resolved(text, readme, page)
    return "".join(part if part.startswith("```") else _HEADING.sub(r"#\1", part) for part in _FENCE.split(resolved))


def _prompt(name: str) -> str:
    """The messages that a model reads, and the replies that were tried. Raises FileNotFoundError, naming the file."""
    text = (_SHOWN / f"{name}.txt").read_text(encoding="utf-8")
    messages = "\n\n".join(f"**{found['role']}**\n\n{_block(_lines(found['body']))}" for found in _FRAME.finditer(text))
    rest = _FRAME.sub("", text).strip("\n")
    return (
        f"The first turn, as `openenv show {name}` prints it:\n\n{messages}\n\n"
        f"What became of some replies:\n\n{_block(rest)}"
    )


def _lines(body: str) -> str:
    return "\n".join(line[1:-1].removeprefix(" ").rstrip() for line in body.splitlines())


def _block(text: str) -> str:
    return f"````text\n{text}\n````"
