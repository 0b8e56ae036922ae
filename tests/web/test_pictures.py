"""The pages of a server in each of their states fit both widths, name what is played, and can be read."""

from collections.abc import Callable

import pytest
from fastapi import FastAPI
from playwright.sync_api import Page, expect

from openenv.core.env_server import ServerConfig, create_app
from openenv.envs.openspiel_env import OpenSpielAction, OpenSpielEnv
from openenv.envs.openspiel_env.server.app import program
from openenv.envs.openspiel_env.server.environment import OpenSpielEnvironment
from tests.acceptance.games.thermostat import ThermostatEnvironment
from tests.core.counting_env import CountingEnvironment
from tests.pages.pictures import Pictures, pictures
from tests.web.page_envs import DotEnvironment

__all__ = ["pictures"]
pytestmark = pytest.mark.process

Serve = Callable[[FastAPI], str]


class BrokenEnvironment(CountingEnvironment):
    """Cannot be made."""

    def __init__(self) -> None:
        raise RuntimeError("the table large.bin is missing: download it with `make tables`")


def openspiel(game: str) -> FastAPI:
    return program.build(game_name=game)


GAMES: dict[str, tuple[Callable[[], FastAPI], str]] = {
    "blackjack": (lambda: openspiel("blackjack"), "blackjack"),  # cards, and a tensor of 100 numbers
    "tic_tac_toe": (lambda: openspiel("tic_tac_toe"), "tic_tac_toe"),  # a board
    "dot": (lambda: create_app(DotEnvironment), "DotEnvironment"),  # a frame
    "thermostat": (lambda: create_app(ThermostatEnvironment), "ThermostatEnvironment"),  # tools
    "counting": (lambda: create_app(CountingEnvironment), "CountingEnvironment"),  # a number, and a form
}


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.finding("pages fit their window, name the game, and lead with what a person looks at")
def test_the_page_to_play_on_empty_running_and_finished(
    page: Page, pictures: Pictures, serving: Serve, name: str
) -> None:
    made, headline = GAMES[name]
    page.goto(f"{serving(made())}/web/")
    expect(page.get_by_role("button", name="Reset")).to_be_enabled()
    pictures.take(f"play-{name}-empty", headline=headline)
    if page.locator("#reset [name=seed]").count():
        page.locator("#reset [name=seed]").fill("3")
    page.get_by_role("button", name="Reset").click()
    expect(page.locator("#progress")).to_have_text("The episode begins")
    pictures.take(f"play-{name}-running", headline=headline)
    while page.locator("#actions button").count():
        before = page.locator("#steps tr").count()
        page.locator("#actions button").last.click()
        expect(page.locator("#steps tr")).to_have_count(before + 1)
    if name == "thermostat":
        page.locator("form[data-tool=heat] [name=degrees]").select_option("4")
        page.get_by_role("button", name="Call heat").click()
    if name == "counting":
        while "over" not in page.locator("#progress").inner_text():
            page.locator("#action [name=amount]").fill("5")
            page.get_by_role("button", name="Step").click()
            expect(page.locator("[aria-busy]")).to_have_count(0)
    expect(page.locator("#progress")).to_contain_text("Episode over")
    pictures.take(f"play-{name}-finished", headline=headline)


@pytest.mark.finding("pages fit their window, name the game, and lead with what a person looks at")
def test_the_page_to_play_on_failed(page: Page, pictures: Pictures, serving: Serve) -> None:
    page.goto(f"{serving(create_app(BrokenEnvironment))}/web/")
    page.get_by_role("button", name="Reset").click()
    expect(page.locator("#reset-alert")).not_to_be_empty()
    pictures.take("play-failed", headline="BrokenEnvironment")
    page.goto(f"{serving(create_app(CountingEnvironment))}/web/")
    page.get_by_role("button", name="Reset").click()
    page.locator("#action [name=amount]").fill("13")
    page.get_by_role("button", name="Step").click()
    expect(page.locator("#action-alert")).not_to_be_empty()
    pictures.take("play-refused", headline="CountingEnvironment")


@pytest.mark.finding("pages fit their window, name the game, and lead with what a person looks at")
def test_the_page_to_watch_on_empty_running_and_finished(page: Page, pictures: Pictures, serving: Serve) -> None:
    url = serving(create_app(OpenSpielEnvironment, config=ServerConfig(allow_watching=True)))
    page.goto(f"{url}/web/watch")
    expect(page.locator("#none")).to_be_visible()
    pictures.take("watch-empty", headline="OpenSpielEnvironment")
    with OpenSpielEnv(url) as env:
        result = env.reset(game_name="tic_tac_toe", seed=3)
        page.locator("#sessions button").click()
        while not result.done and "tic_tac_toe" not in page.locator("#watched").inner_text():  # it watches from now on
            result = env.step(OpenSpielAction(action_id=result.observation.legal_actions[0]))
            page.wait_for_timeout(1000)
        expect(page.locator("#watched")).to_contain_text("tic_tac_toe")
        pictures.take("watch-running", headline="OpenSpielEnvironment")
        while not result.done:
            result = env.step(OpenSpielAction(action_id=result.observation.legal_actions[0]))
        expect(page.locator("#verbs tr").first).to_contain_text("over")
    expect(page.locator("#watch-alert")).to_have_text("The session has ended.")
    pictures.take("watch-finished", headline="OpenSpielEnvironment")


@pytest.mark.finding("pages fit their window, name the game, and lead with what a person looks at")
def test_the_page_that_asks_for_a_token_empty_and_failed(page: Page, pictures: Pictures, serving: Serve) -> None:
    page.goto(f"{serving(create_app(CountingEnvironment, config=ServerConfig(token='sesame')))}/web/")
    pictures.take("login-empty", headline="OpenEnv server")
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_role("alert")).to_contain_text("not the server's token")
    pictures.take("login-failed", headline="OpenEnv server")
