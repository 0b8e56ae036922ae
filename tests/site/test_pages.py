"""The documentation's site in Chromium, as `make docs` builds it."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from playwright.sync_api import Browser, Page, Request, expect

import openenv
import openenv.core
from tests.browser import NARROW, is_as_wide_as_its_screen, serious_violations
from tests.site.conftest import PYTHON, ROOT

pytestmark = pytest.mark.process

WIDE = {"width": 1280, "height": 800}
KINDS = {
    "text, tables and diagrams": "train.html",
    "home": "index.html",
    "an environment": "environments/snake.html",
    "an environment of tools": "environments/calendar.html",
    "an environment with pictures": "environments/minigrid.html",
    "classes": "reference/api/environments.html",
    "keys": "reference/run.html",
    "commands": "reference/commands.html",
    "a list": "decisions/index.html",
    "a notebook": "tutorials/your_own_environment.html",
}
"""A page of each kind."""
LARGEST = 20_000_000
_LOADED = "() => performance.getEntriesByType('navigation')[0].loadEventEnd"


@pytest.fixture
def elsewhere(page: Page, address: str) -> Iterator[list[str]]:
    """The requests of the page that leave the site's server."""
    found: list[str] = []

    def look(request: Request) -> None:
        if not request.url.startswith((address, "data:", "blob:")):
            found.append(request.url)

    page.on("request", look)
    yield found
    page.remove_listener("request", look)


def _html(site: Path) -> list[str]:
    return sorted(str(path.relative_to(site)) for path in site.rglob("*.html"))


def test_every_page_fits_a_telephone_and_loads_nothing_from_elsewhere(
    site: Path, address: str, page: Page, elsewhere: list[str]
) -> None:
    page.set_viewport_size(NARROW)
    too_wide = []
    for path in _html(site):
        page.goto(f"{address}/{path}")
        if not is_as_wide_as_its_screen(page):
            too_wide.append(path)

    assert (too_wide, elsewhere) == ([], [])


def test_pages_of_each_kind_load_on_a_wide_screen(address: str, page: Page, elsewhere: list[str]) -> None:
    page.set_viewport_size(WIDE)
    for kind, path in KINDS.items():
        page.goto(f"{address}/{path}", wait_until="load")
        print(f"{path} ({kind}): loaded in {page.evaluate(_LOADED):.0f} ms")
        assert is_as_wide_as_its_screen(page), path
    assert elsewhere == []


@pytest.mark.parametrize(
    ("path", "size"),
    [
        *(pytest.param(path, WIDE, id=f"{kind}, wide") for kind, path in KINDS.items()),
        *(
            pytest.param(KINDS[kind], NARROW, id=f"{kind}, narrow")
            for kind in ("an environment", "classes", "commands")
        ),
    ],
)
def test_a_page_has_no_serious_fault_for_screen_readers(
    address: str, page: Page, path: str, size: dict[str, int]
) -> None:
    page.set_viewport_size(size)
    page.goto(f"{address}/{path}")

    assert serious_violations(page) == []


def test_the_pages_are_dark_where_the_system_is(address: str, page: Page) -> None:
    page.emulate_media(color_scheme="dark")
    page.goto(f"{address}/index.html")
    expect(page.locator("body")).to_have_attribute("data-md-color-scheme", "slate")

    page.emulate_media(color_scheme="light")
    expect(page.locator("body")).to_have_attribute("data-md-color-scheme", "default")


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_the_search_finds_a_word_of_a_page(
    address: str, page: Page, elsewhere: list[str], size: dict[str, int]
) -> None:
    page.set_viewport_size(size)
    page.goto(f"{address}/index.html")
    if size == NARROW:
        page.locator("label[for=__search]").first.click()
    page.get_by_role("textbox", name="Search").fill("SessionLost")
    found = page.locator(".md-search-result__link[href*='sessions.html']").first
    expect(found).to_be_visible()
    found.click()

    expect(page.get_by_role("heading", name="Sessions: never lose an episode")).to_be_visible()
    assert elsewhere == []


def test_the_search_finds_a_word_where_pages_are_opened_as_files(site: Path, browser: Browser) -> None:
    context = browser.new_context()
    page = context.new_page()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(f"file://{site}/reference/run.html")
    page.get_by_role("textbox", name="Search").fill("SessionLost")
    expect(page.locator(".md-search-result__link[href$='/sessions.html']")).to_be_visible()
    context.close()

    assert [url for url in requests if not url.startswith("file:")] == []


def test_each_page_has_its_markdown_beside_it_which_llms_txt_lists(site: Path) -> None:
    pages = {path.removesuffix(".html") for path in _html(site)} - {"404"}
    text = (site / "llms.txt").read_text(encoding="utf-8")

    assert [path for path in pages if not (site / f"{path}.md").is_file()] == []
    assert sorted(path for path in pages if f"]({path}.md)" not in text) == []
    assert text.startswith("# openenv\n\n> ")


_RENDER = """
import pathlib, sys
from website.__main__ import render
from website.pages import Page
render({"index.md": Page("index.md", "# Title\\n\\n[a](#title) [b](#nowhere)\\n")}, *map(pathlib.Path, sys.argv[1:]))
"""


def test_a_dead_anchor_and_a_place_without_a_page_are_errors(site: Path, tmp_path: Path) -> None:
    arguments = [PYTHON, "-c", _RENDER, tmp_path / "sources", tmp_path / "site"]
    rendered = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=False)

    assert rendered.returncode == 1
    assert "a link '#nowhere', but there is no such anchor" in rendered.stderr
    assert "reference to 'start.md'" in rendered.stderr
    assert "'#title'" not in rendered.stderr


def test_no_page_shows_a_table_as_its_markdown(site: Path) -> None:
    """A table right below a block of code is one for the sites of git, and none here."""
    assert [path for path in _html(site) if "|---|" in (site / path).read_text(encoding="utf-8")] == []


def test_the_site_is_small(site: Path) -> None:
    assert sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) < LARGEST


@pytest.mark.parametrize("module", [openenv, openenv.core])
def test_every_published_name_is_in_the_reference(site: Path, module: ModuleType) -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in (site / "reference/api").glob("*.md"))

    assert [name for name in module.__all__ if f"## `{name}`\n" not in pages] == []


def test_a_recorded_episode_is_stepped_through_and_played(address: str, page: Page) -> None:
    page.goto(f"{address}/environments/snake.html")
    replay = page.locator(".replay")
    facts, board = replay.locator("dl.values").first, replay.locator("table.grid")
    expect(facts).to_contain_text("step0 of")
    first = board.inner_text()

    replay.get_by_role("button", name="Forward").click()
    expect(facts).to_contain_text("step1 of")
    assert board.inner_text() != first
    replay.get_by_role("slider").press("End")
    expect(replay.get_by_role("button", name="Forward")).to_be_disabled()
    replay.get_by_role("button", name="Play").click()
    expect(facts).to_contain_text("step2 of")


def test_a_recorded_episode_needs_no_server(site: Path, browser: Browser) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto((site / "environments/minigrid.html").as_uri())
    page.locator(".replay").get_by_role("button", name="Forward").click()

    expect(page.locator(".replay dl.values").first).to_contain_text("actionforward")
    assert page.locator(".replay img.frame").evaluate("image => image.naturalWidth") > 100
    context.close()
