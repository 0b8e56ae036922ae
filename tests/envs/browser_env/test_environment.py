"""The web tasks behind a real server: tasks, seeds, actions, sessions, errors."""

import base64
from random import Random

import pytest

from openenv.core.errors import EnvironmentFault, EpisodeOver, InvalidMessage, NotSupported
from tests.envs.extras import require_extra, require_programs

require_extra("miniwob", "browser")
require_programs("chromium")

from openenv.envs.browser_env import BrowserAction, BrowserEnv, BrowserText
from openenv.envs.browser_env.players import follow_goal
from openenv.envs.browser_env.server.app import app, program
from openenv.envs.browser_env.server.tasks import LEFT_OUT, task_names

pytestmark = pytest.mark.process

TEXT = BrowserText()
SOLVED = (
    "click-test", "click-test-2", "click-button", "enter-text", "enter-password", "focus-text", "focus-text-2",
    "choose-list", "click-option", "click-checkboxes",
)  # fmt: skip
"""Tasks that the heuristic always solves."""
VARIED = (
    "book-flight", "chase-circle", "choose-date", "click-pie", "count-shape", "drag-cube", "email-inbox",
    "guess-number", "moving-items", "search-engine", "social-media", "terminal", "text-editor",
    "tic-tac-toe", "use-colorwheel",
)  # fmt: skip
"""A task of each family: with dates, animations, images, canvases, editors, and time."""


@pytest.fixture(scope="module")
def url(module_serving):
    return module_serving(app)


def play(env, reply):
    """The result of a reply."""
    action = TEXT.parse(reply, SEEN[env])
    assert action is not None, TEXT.problem(reply, SEEN[env])
    return noted(env, env.step(action))


def begin(env, task, seed=1, **reset):
    return noted(env, env.reset(task=task, seed=seed, **reset)).observation


SEEN = {}
"""The newest observation of each client."""


def noted(env, result):
    SEEN[env] = result.observation
    return result


def element(seen, **fields):
    """The first element with these values."""
    return next(one for one in seen.elements if all(getattr(one, name) == value for name, value in fields.items()))


def random_episode(env, task, seed, steps=6):
    """The observations of random play, as JSON, without the errors of illegal actions."""
    shown, rng = [begin(env, task, seed).model_dump_json()], Random(seed)
    while not SEEN[env].done and len(shown) < steps:
        action = TEXT.random_reply(SEEN[env], rng)[1]
        try:
            shown.append(noted(env, env.step(action)).observation.model_dump_json())
        except EnvironmentFault as error:
            shown.append(str(error))
    return shown


def test_elements_are_numbered_as_they_are_read_and_not_as_the_document_has_them(url):
    """The document of click-test-2 has the right button first: its number would be the answer."""
    first = set()
    with BrowserEnv(url) as env:
        for seed in range(8):
            elements = env.reset(task="click-test-2", seed=seed).observation.elements
            buttons = [element for element in elements if element.tag == "button"]
            assert [button.ref for button in buttons] == sorted(button.ref for button in buttons)
            assert buttons[0].y < buttons[1].y + 8  # of one line, the left one is first
            first.add(buttons[0].text)

    assert first == {"ONE", "TWO"}


@pytest.mark.parametrize("task", SOLVED)
def test_the_heuristic_solves_the_task_with_every_seed(url, task):
    with BrowserEnv(url) as env:
        for seed in range(4):
            result = env.reset(task=task, seed=seed)
            while not result.done:
                result = env.step(follow_goal(result.observation, Random()))

            assert (result.reward, result.observation.truncated) == (1.0, False), seed


@pytest.mark.parametrize(
    "task", [*VARIED, *(pytest.param(name, marks=pytest.mark.slow) for name in task_names() if name not in VARIED)]
)
def test_equal_seeds_give_equal_episodes_beside_another_session(url, task):
    with BrowserEnv(url) as env, BrowserEnv(url) as other:
        first = random_episode(env, task, 2)
        begin(other, "click-button", 5)
        shown, rng = [begin(other, task, 2).model_dump_json()], Random(2)
        begin(env, "click-test-2")
        while not SEEN[other].done and len(shown) < len(first):
            action = TEXT.random_reply(SEEN[other], rng)[1]
            try:
                shown.append(noted(other, other.step(action)).observation.model_dump_json())
            except EnvironmentFault as error:
                shown.append(str(error))
            if not SEEN[env].done:
                play(env, "noop()")

        assert shown == first
        assert SEEN[other].utterance


def test_pictures_that_load_under_the_mouse_change_no_episode(url):
    with BrowserEnv(url) as env:
        episodes = [random_episode(env, "social-media", 2) for _ in range(12)]

        assert episodes == [episodes[0]] * 12


def test_other_seeds_give_other_tasks(url):
    with BrowserEnv(url) as env:
        goals = {begin(env, "enter-text", seed).utterance for seed in range(8)}

        assert len(goals) >= 7
        assert begin(env, "enter-text", 2**60) == begin(env, "enter-text", 2**60)


def test_without_a_seed_the_metadata_names_a_random_one(url):
    with BrowserEnv(url) as env:
        firsts = [env.reset(task="enter-text").observation for _ in range(2)]

        assert firsts[0].metadata["seed"] != firsts[1].metadata["seed"]
        assert env.reset(task="enter-text", seed=firsts[0].metadata["seed"]).observation == firsts[0]
        assert firsts[0].metadata["task"] == "enter-text"


def test_the_reward_is_the_tasks_own_and_comes_at_the_end(url):
    with BrowserEnv(url) as env:
        seen = begin(env, "click-test-2")
        missed = play(env, "click(2, 209)")
        wrong = play(env, f"click({element(seen, text='TWO').ref})")

        assert (missed.reward, missed.done) == (0.0, False)
        assert (wrong.reward, wrong.done, wrong.observation.elements) == (-1.0, True, [])
        with pytest.raises(EpisodeOver):
            env.step(BrowserAction(kind="noop"))


def test_an_episode_out_of_steps_is_truncated_with_minus_one(url):
    with BrowserEnv(url) as env:
        begin(env, "click-test-2", max_steps=2)
        results = [play(env, "noop()") for _ in range(2)]

        assert [(result.reward, result.done, result.observation.truncated) for result in results] == [
            (0.0, False, False),
            (-1.0, True, True),
        ]
        assert env.state().step_count == 2


def test_time_passes_by_steps_only(url):
    with BrowserEnv(url) as env:
        begin(env, "chase-circle", step_ms=1000)
        rewards = [play(env, "noop()") for _ in range(9)]

        assert [result.done for result in rewards] == [False] * 8 + [True]
        assert rewards[-1].reward == pytest.approx(0.01, abs=0.02), "the circle was never under the mouse"


def test_a_field_is_filled_typed_into_and_edited_with_keys(url):
    with BrowserEnv(url) as env:
        field = element(begin(env, "enter-text"), tag="input_text").ref

        def value():
            return element(SEEN[env], ref=field).value

        play(env, f'fill({field}, "Hello, (you)")')
        assert value() == "Hello, (you)"
        play(env, f'fill({field}, "ab")')
        play(env, 'type("Cd é")')
        assert value() == "abCd é"
        play(env, 'press("Backspace")')
        play(env, 'press("Home")')
        play(env, 'press("Shift+X")')
        assert value() == "XabCd "
        play(env, 'press("Control+a")')
        play(env, 'press("Control+c")')
        play(env, 'press("End")')
        play(env, 'press("Control+v")')
        assert value() == "XabCd XabCd "
        play(env, f'fill({field}, "")')
        assert value() == ""


def test_each_session_has_a_clipboard_of_its_own(url):
    with BrowserEnv(url) as env, BrowserEnv(url) as other:
        for client, word in ((env, "mine"), (other, "theirs")):
            field = element(begin(client, "enter-text"), tag="input_text").ref
            play(client, f'fill({field}, "{word}")')
            play(client, 'press("Control+a")')
            play(client, 'press("Control+c")')
        play(env, 'press("Control+v")')
        play(env, 'press("Control+v")')

        assert element(SEEN[env], tag="input_text").value == "minemine"


def test_an_option_is_selected(url):
    with BrowserEnv(url) as env:
        offered = element(begin(env, "choose-list"), tag="select")
        result = play(env, f'select_option({offered.ref}, "{offered.options[-1]}")')

        assert element(result.observation, tag="select").value == offered.options[-1]


def test_a_checkbox_is_checked_by_a_click_and_by_space(url):
    with BrowserEnv(url) as env:
        box = element(begin(env, "click-checkboxes"), tag="input_checkbox").ref
        states = []
        for reply in (f'press({box}, "Space")', f"click({box})"):
            states.append(element(play(env, reply).observation, ref=box).is_checked)

        assert states == [True, False]


def test_a_box_is_dragged_to_a_point(url):
    with BrowserEnv(url) as env:
        seen = begin(env, "drag-box")
        small, large = (element(seen, text=letter) for letter in "sL")
        result = play(env, f"drag_and_drop({small.ref}, {large.x + large.width // 2}, {large.y + large.height // 2})")
        moved = element(result.observation, text="s")

        assert (moved.x, moved.y) != (small.x, small.y)
        assert large.x <= moved.x <= moved.x + moved.width <= large.x + large.width


def test_a_text_is_scrolled_and_what_the_page_shows_follows(url):
    with BrowserEnv(url) as env:
        words = element(begin(env, "sign-agreement"), id="text-area")
        assert element(SEEN[env], id="name").is_disabled
        for _ in range(3):
            play(env, f"scroll({words.ref}, 1000)")

        assert not element(SEEN[env], id="name").is_disabled, "the text was read to its end"


def test_a_shape_is_hovered_over(url):
    with BrowserEnv(url) as env:
        begin(env, "chase-circle", step_ms=1000)
        results = []
        while not SEEN[env].done:
            results.append(play(env, f"hover({element(SEEN[env], tag='circle').ref})"))

        assert results[-1].reward > 0.1


def test_a_screenshot_is_a_png_of_the_task_where_the_reset_asks_for_it(url):
    with BrowserEnv(url) as env:
        assert begin(env, "click-test-2").screenshot is None
        begin(env, "click-test-2", screenshot=True)
        shot = base64.b64decode(play(env, "noop()").observation.screenshot)

        assert shot[:8] == b"\x89PNG\r\n\x1a\n"
        assert (int.from_bytes(shot[16:20]), int.from_bytes(shot[20:24])) == (160, 210)
        assert env.state().screenshot is True


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "click", "ref": 99}, "ref=99 is no element of the page"),
        ({"kind": "fill", "ref": 2, "text": "a"}, "ref=2 is a button that takes no text"),
        ({"kind": "select_option", "ref": 2, "option": "a"}, "ref=2 is no list of options"),
        ({"kind": "press", "key": "Strg+a"}, r"key='Strg\+a': expected a character or one of Enter"),
        ({"kind": "type", "ref": 99, "text": "a"}, "ref=99 is no element"),
        ({"kind": "drag_and_drop", "ref": 2, "to_ref": 99}, "to_ref=99 is no element"),
    ],
)
def test_an_action_that_the_page_does_not_allow_is_an_error_and_the_page_stays(url, fields, message):
    with BrowserEnv(url) as env:
        before = begin(env, "enter-text")
        with pytest.raises(EnvironmentFault, match=message):
            env.step(BrowserAction(**fields))

        assert env.state().step_count == 0
        assert play(env, "noop()").observation.elements == before.elements


def test_the_text_of_an_action_is_never_run_as_a_program(url):
    with BrowserEnv(url) as env:
        begin(env, "choose-list")
        for text in ("'); core.endEpisode(1); ('", "`${core.endEpisode(1)}`", '"); core.endEpisode(1); ("'):
            with pytest.raises(EnvironmentFault, match="is not among"):
                env.step(BrowserAction(kind="select_option", ref=element(SEEN[env], tag="select").ref, option=text))
        field = element(begin(env, "enter-text"), tag="input_text").ref
        result = env.step(BrowserAction(kind="fill", ref=field, text="'); core.endEpisode(1); ('"))

        assert (result.done, result.observation.error) == (False, "")


def test_wrong_fields_of_an_action_are_refused_by_their_names(url):
    with BrowserEnv(url) as env:
        begin(env, "click-test-2")
        with pytest.raises(InvalidMessage, match="text: fill needs it"):
            env.step(BrowserAction.model_construct(kind="fill", ref=4, metadata={}))


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"task": "click-test2"}, r"task='click-test2' is not among the \d+ tasks.*Did you mean 'click-test-2'\?"),
        ({"task": "../core/core"}, "is not among"),
        ({"task": 3}, "task=3 is not among"),
        ({"screenshot": "yes"}, "screenshot='yes': expected true"),
        ({"max_steps": 0}, "max_steps=0: expected a whole number from 1 to 1000"),
        ({"step_ms": 1.5}, "step_ms=1.5: expected a whole number"),
        ({"size": 3}, "reset takes seed, episode_id, task, screenshot, max_steps, step_ms; got size"),
    ],
)
def test_a_wrong_reset_is_an_error_that_names_the_field_and_the_episode_goes_on(url, keywords, message):
    with BrowserEnv(url) as env:
        begin(env, "click-test-2")
        before = env.state()
        with pytest.raises(EnvironmentFault, match=message):
            env.reset(**keywords)

        assert env.state() == before
        assert play(env, "click(2, 209)").reward == 0.0


def test_an_episode_cannot_be_saved(url):
    with BrowserEnv(url) as env:
        begin(env, "click-test-2")
        with pytest.raises(NotSupported):
            env.save()


def test_the_server_has_a_default_task(serving):
    with BrowserEnv(serving(program.build(task="focus-text"))) as env:
        assert env.reset(seed=1).observation.utterance == "Focus into the textbox."
        assert env.state().task == "focus-text"
    with pytest.raises(ValueError, match="task='focus' is not among"):
        program.build(task="focus")


def test_tasks_that_are_left_out_exist_and_their_error_has_the_reason(url):
    with BrowserEnv(url) as env:
        for task, reason in LEFT_OUT.items():
            with pytest.raises(EnvironmentFault, match=f"task='{task}' is left out: {reason[:20]}"):
                env.reset(task=task)
    assert len(task_names()) >= 100
