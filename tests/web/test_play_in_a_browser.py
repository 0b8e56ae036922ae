"""A person plays environments at `/web` with a browser: by buttons, by keyboard alone, by forms and by tools."""

import re

import pytest
from playwright.sync_api import Page, expect

from openenv.core.env_server import ServerConfig, create_app
from openenv.envs.openspiel_env.server.environment import OpenSpielEnvironment
from tests.acceptance.games.thermostat import ThermostatEnvironment
from tests.browser import NARROW, is_as_wide_as_its_screen, loaded_bytes, screenshot, serious_violations
from tests.core.counting_env import CountingEnvironment
from tests.web.page_envs import DotEnvironment, HostileEnvironment, HostileTools

pytestmark = pytest.mark.process

LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]


class TicTacToe(OpenSpielEnvironment):
    """Three in a row, against random play."""

    def __init__(self) -> None:
        super().__init__(game_name="tic_tac_toe")


def begin(page: Page, url: str, **inputs: str) -> None:
    """Open the page and reset."""
    page.goto(f"{url}/web/")
    for name, value in inputs.items():
        page.locator(f"#reset [name={name}], #reset [id={name}]").fill(value)
    page.get_by_role("button", name="Reset").click()
    expect(page.locator("#progress")).to_have_text("The episode begins")


def best_cell(page: Page) -> str:
    """The name of the button of the cell that wins, else of one that keeps the opponent from it, else of any."""
    cells = page.locator("table.grid td").all_inner_texts()
    empty = [cell for cell in (4, 0, 2, 6, 8, 1, 3, 5, 7) if cells[cell] == "."]
    for mark in "xo":
        for line in LINES:
            marks = [cells[cell] for cell in line]
            if marks.count(mark) == 2 and "." in marks:
                return name_of(line[marks.index(".")])
    return name_of(empty[0])


def name_of(cell: int) -> str:
    return f"x({cell // 3},{cell % 3})"


def test_a_game_is_won_by_buttons(page, serving):
    begin(page, serving(create_app(TicTacToe)), seed="3")
    for number in range(1, 5):
        page.get_by_role("button", name=best_cell(page)).click()
        expect(page.locator("#steps tr")).to_have_count(number + 1)
        if "over" in page.locator("#progress").inner_text():
            break
        if number == 2:
            screenshot(page, "play")

    expect(page.locator("#progress")).to_have_text(re.compile(r"^Won\. Episode over: \d steps, return 1$"))
    expect(page.locator("#actions button")).to_have_count(0)
    expect(page.locator("#step")).to_be_disabled()


def test_the_page_leads_with_the_cards_and_folds_the_tensor_away(page, serving):
    begin(page, serving(create_app(OpenSpielEnvironment)), seed="3", keywords='{"game_name": "blackjack"}')
    seen = page.locator("#observation")
    cards, value = seen.get_by_text("Player 0: Cards: CJ H7"), seen.get_by_text("game_phase")
    tensor = seen.locator("details:not([open]) summary", has_text="info_state, 189 numbers")

    expect(page.locator("h1")).to_have_text("OpenSpielEnvironment: blackjack")
    assert page.title() == "OpenSpielEnvironment: blackjack"
    assert cards.bounding_box()["y"] < value.bounding_box()["y"] < tensor.bounding_box()["y"]


def test_the_result_stays_in_sight_when_the_episode_ends(page, serving):
    page.set_viewport_size(NARROW)
    begin(page, serving(create_app(OpenSpielEnvironment)), seed="3", keywords='{"game_name": "blackjack"}')
    page.locator("#actions button", has_text="Stand").click()
    expect(page.locator("#progress")).to_have_text("Lost. Episode over: 1 step, return -1")
    page.keyboard.press("End")
    page.wait_for_function("scrollY > 100")

    expect(page.locator("#progress")).to_be_in_viewport(ratio=1)
    expect(page.get_by_role("button", name="Reset")).to_be_in_viewport(ratio=1)


def test_a_game_is_won_by_the_keyboard_alone(page, serving):
    page.goto(f"{serving(create_app(TicTacToe))}/web/")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    for _ in range(10):
        page.keyboard.press("Tab")
        if page.locator("#reset-seed").evaluate("input => input === document.activeElement"):
            break
    page.keyboard.type("3")
    page.keyboard.press("Enter")
    expect(page.locator("#actions button").first).to_be_focused()
    for number in range(1, 5):
        names = page.locator("#actions button").all_inner_texts()
        page.keyboard.press(str(next(i for i, name in enumerate(names, 1) if name.startswith(best_cell(page)))))
        expect(page.locator("#steps tr")).to_have_count(number + 1)
        if "over" in page.locator("#progress").inner_text():
            break

    expect(page.locator("#progress")).to_have_text(re.compile("return 1"))
    expect(page.get_by_role("button", name="Reset")).to_be_focused()


def test_a_wrong_form_is_refused_in_words_and_loses_nothing(page, serving):
    begin(page, serving(create_app(CountingEnvironment)), start="4")
    amount, alert = page.locator("#action [name=amount]"), page.locator("#action-alert")
    page.get_by_role("button", name="Step").click()
    expect(alert).to_have_text("amount: give a value")
    amount.fill("13")
    page.get_by_role("button", name="Step").click()
    expect(alert).to_contain_text("amount: Value error, thirteen is unlucky")
    expect(amount).to_have_attribute("aria-invalid", "true")
    page.locator("#action [name=mischief]").fill("raise")
    amount.fill("2")
    page.get_by_role("button", name="Step").click()
    expect(alert).to_contain_text("amount=2 is not to my taste")
    page.locator("#action [name=mischief]").fill("")
    page.get_by_role("button", name="Step").click()

    expect(page.locator("#progress")).to_have_text("Step 1")
    expect(alert).to_be_empty()
    expect(page.locator("#observation")).to_contain_text("total")
    assert "6" in page.locator("#observation dd").first.inner_text()


def test_options_of_a_reset_that_are_no_json_are_refused_in_words(page, serving):
    page.goto(f"{serving(create_app(OpenSpielEnvironment))}/web/")
    page.locator("#keywords").fill("{game_name: chess}")
    page.get_by_role("button", name="Reset").click()
    expect(page.locator("#reset-alert")).to_contain_text("further options: this is no JSON")
    page.locator("#keywords").fill('{"game_name": "chess"}')
    page.get_by_role("button", name="Reset").click()

    expect(page.get_by_role("button", name="e5")).to_be_visible()


def test_a_frame_of_an_environment_with_images_changes(page, serving):
    begin(page, serving(create_app(DotEnvironment)))
    frame = page.locator("img.frame")
    before = frame.get_attribute("src")
    page.get_by_role("button", name="yes").click()
    expect(page.locator("#progress")).to_have_text("Step 1")

    assert before.startswith("data:image/png;base64,")
    assert frame.get_attribute("src") != before
    assert frame.evaluate("image => image.complete && image.naturalWidth") == 16
    expect(page.locator("#observation dd")).to_contain_text("9 px")


def test_tools_are_called_by_their_forms(page, serving):
    begin(page, serving(create_app(ThermostatEnvironment)), seed="1")
    page.locator("form[data-tool=heat] [name=degrees]").select_option("4")
    page.get_by_role("button", name="Call heat").click()

    expect(page.locator("#steps tr").first).to_contain_text('heat {"degrees":4}')
    expect(page.locator("#progress")).to_contain_text("Episode over")


def test_no_text_of_an_environment_runs(page, serving):
    for environment in (HostileEnvironment, HostileTools):
        page.goto(f"{serving(create_app(environment))}/web/")
        page.get_by_role("button", name="Reset").click()
        expect(page.locator("#progress")).to_have_text("The episode begins")
        if environment is HostileEnvironment:
            expect(page.frame_locator("#drawing").locator("p")).to_have_css("color", "rgb(0, 128, 0)")
            page.locator("#actions button").click()
            expect(page.locator("#progress")).to_have_text("Step 1")
            page.locator("summary", has_text="Write an action").click()
            page.locator("#action [name=word]").fill("fail")
            page.get_by_role("button", name="Step").click()
            expect(page.locator("#action-alert")).to_contain_text("window.hacked")
        else:
            page.get_by_role("button", name="Call say").click()
        page.get_by_role("button", name="Show state").click()
        expect(page.locator("#state")).to_be_visible()
        page.wait_for_load_state("networkidle")

        assert page.evaluate("window.hacked") is None
        assert page.locator("main script, main img[src=x]").count() == 0


def test_a_server_with_a_token_asks_for_it_once(page, serving):
    url = serving(create_app(CountingEnvironment, config=ServerConfig(token="sesame")))
    page.goto(f"{url}/web/")
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_role("alert")).to_contain_text("not the server's token")
    assert serious_violations(page) == []
    page.get_by_label("Token").fill("sesame")
    page.get_by_role("button", name="Open").click()
    page.get_by_role("button", name="Reset").click()
    expect(page.locator("#progress")).to_have_text("The episode begins")
    (cookie,) = page.context.cookies()

    assert page.url == f"{url}/web/"
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert "sesame" not in cookie["value"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_small_accessible_and_fits_a_telephone(page, serving, scheme):
    page.emulate_media(color_scheme=scheme)
    url = serving(create_app(TicTacToe))
    assert loaded_bytes(page, f"{url}/web/") < 100_000
    page.get_by_role("button", name="Reset").click()
    page.locator("#actions button").first.click()
    expect(page.locator("#progress")).to_have_text("Step 1")
    assert serious_violations(page) == []
    page.set_viewport_size(NARROW)

    assert is_as_wide_as_its_screen(page)
