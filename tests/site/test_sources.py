"""What the documentation's site is made from: a place for every page, and facts that no manifest declares."""

import importlib.metadata
import json
import re
from pathlib import Path

import pytest
import yaml
from website.links import BrokenLink, Links
from website.navigation import expanded, named_pages, navigation

from openenv.envs.catalog import CatalogEntry, entries
from tests.envs.extras import ALL_ARE_INSTALLED, require_entry

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
LICENCES = yaml.safe_load((ROOT / "website/licences.yaml").read_text(encoding="utf-8"))
_SHORT_NAMES = {"MIT License": "MIT", "Apache Software License": "Apache-2.0"}


def test_every_page_of_docs_has_a_place_in_the_navigation() -> None:
    written = [str(path.relative_to(DOCS)) for path in sorted(DOCS.rglob("*.md"))]
    named = set(named_pages(expanded(navigation(), written)))

    assert [page for page in written if page not in named] == []


def test_the_navigation_names_no_page_of_docs_twice() -> None:
    named = list(named_pages(navigation()))

    assert sorted({page for page in named if named.count(page) > 1}) == []


def test_every_extra_of_an_environment_has_its_licences() -> None:
    assert sorted({entry.extra for entry in entries() if entry.extra} ^ LICENCES.keys()) == []


@pytest.mark.parametrize(("name", "licence"), sorted({one for known in LICENCES.values() for one in known.items()}))
def test_a_licence_is_what_the_installed_distribution_declares(name: str, licence: str) -> None:
    try:
        metadata = importlib.metadata.metadata(name)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"needs {name}")
    classifiers = [row.rpartition(" :: ")[2] for row in metadata.get_all("Classifier") or [] if "License" in row]
    declared = [metadata.get("License-Expression"), metadata.get("License"), *classifiers]

    assert licence in {_SHORT_NAMES.get(text, text) for text in declared if text}


@pytest.fixture
def links(tmp_path: Path) -> Links:
    """A repository with two pages and a program."""
    (tmp_path / "docs").mkdir()
    for name in ("docs/use.md", "docs/train.md", "run.py", "docs/images"):
        (tmp_path / name).touch()
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    return Links(tmp_path, {"docs/use.md": "use.md", "docs/train.md": "train.md", "README.md": "index.md"})


@pytest.mark.parametrize(
    ("source", "page", "text", "shown"),
    [
        ("README.md", "index.md", "[use](docs/use.md#a)", "[use](use.md#a)"),
        ("docs/use.md", "use.md", "[train](train.md)", "[train](train.md)"),
        ("docs/use.md", "environments/x.md", "[train](train.md)", "[train](../train.md)"),
        ("docs/use.md", "use.md", "[the program](../run.py)", "the program (`run.py`)"),
        ("docs/use.md", "use.md", "[run.py](../run.py)", "`run.py`"),
        ("docs/use.md", "use.md", "`[x](nowhere.md)` [y](https://a.org)", "`[x](nowhere.md)` [y](https://a.org)"),
        ("docs/use.md", "use.md", "```\n[x](nowhere.md)\n```", "```\n[x](nowhere.md)\n```"),
    ],
)
def test_a_link_leads_to_the_page_of_its_file(links: Links, source: str, page: str, text: str, shown: str) -> None:
    assert links.resolved(text, source, page) == shown


def test_a_link_to_another_file_leads_to_the_repository_where_it_has_an_address(links: Links, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project.urls]\nRepository = 'https://a.org/x'\n")

    shown = Links(tmp_path, {}).resolved("[it](../run.py)", "docs/use.md", "use.md")

    assert shown == "[it](https://a.org/x/blob/main/run.py)"


def test_a_link_to_nothing_is_an_error_that_names_it(links: Links) -> None:
    with pytest.raises(BrokenLink, match=re.escape("docs/use.md: the link 'nowhere.md' leads to docs/nowhere.md")):
        links.resolved("[x](nowhere.md)", "docs/use.md", "use.md")


def test_every_environment_has_a_recorded_episode_of_its_first_measured_task() -> None:
    files = (ROOT / "website/replays").glob("*.json")
    recorded = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in files}

    assert {name: one["task"] for name, one in recorded.items()} == {
        entry.name: next(iter(entry.measured)) for entry in entries()
    }
    for name, one in recorded.items():
        first, *others = one["steps"]
        assert (first["action"], len(others) > 0) == ("reset", True), name
        assert not any(step["done"] for step in one["steps"][:-1]), name


@pytest.mark.parametrize("entry", [entry for entry in entries() if entry.extra], ids=lambda entry: entry.name)
def test_the_recorded_tasks_of_an_environment_with_an_extra_are_its_tasks(entry: CatalogEntry) -> None:
    recorded = json.loads((ROOT / f"website/tasks/{entry.name}.json").read_text(encoding="utf-8"))
    require_entry(entry)
    found = json.loads(json.dumps(dict(entry.load_tasks())))

    assert found == {name: recorded[name] for name in found}
    assert found.keys() == recorded.keys() or not ALL_ARE_INSTALLED  # Gymnasium's tasks are more with Box2D and MuJoCo
