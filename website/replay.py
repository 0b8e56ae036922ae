"""The recorded episode on the page of an environment."""

import re
from collections.abc import Iterator
from pathlib import Path

from openenv import web

_FOLDER = Path(__file__).parent
_RECORDED = _FOLDER / "replays"
_MODULES = (Path(web.__file__).with_name("assets") / "common.js", _FOLDER / "scripts/replay.js")


def replay_section(name: str) -> str:
    """The section of a page; empty for an environment without a recorded episode."""
    if not (_RECORDED / f"{name}.json").is_file():
        return ""
    return (
        "## An episode\n\n"
        '<div class="replay" role="group" aria-label="A recorded episode"></div>\n'
        f'<script src="../assets/replay.js"></script>\n<script src="../assets/replays/{name}.js"></script>'
    )


def scripts() -> Iterator[tuple[str, str]]:
    """The scripts of the site that are made: their paths and their texts."""
    modules = "".join(path.read_text(encoding="utf-8") for path in _MODULES)
    plain = re.sub(r"^import .*\n|^export ", "", modules, flags=re.MULTILINE)
    yield "assets/replay.js", f"(() => {{\n{plain}}})();\n"
    for path in sorted(_RECORDED.glob("*.json")):
        yield f"assets/replays/{path.stem}.js", f"openenvEpisode({path.read_text(encoding='utf-8').strip()});\n"
