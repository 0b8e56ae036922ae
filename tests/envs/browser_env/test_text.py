"""The text interface of the web tasks: no browser is needed."""

import time
from random import Random

import pytest

from openenv.envs.browser_env import BrowserAction, BrowserObservation, BrowserText, PageElement

TEXT = BrowserText()
PLACE = {"x": 10, "y": 60, "width": 40, "height": 20}
SEEN = BrowserObservation(
    utterance='Enter "Al \\ Bo" and press Submit.',
    elements=[
        PageElement(ref=3, tag="input_text", id="tt", value="abc", is_focused=True, **PLACE),
        PageElement(ref=4, tag="button", text="Submit", **PLACE),
        PageElement(ref=7, tag="select", options=["Red", "Dark blue"], value="Red", **PLACE),
        PageElement(ref=8, tag="input_checkbox", is_checked=False, is_disabled=True, **PLACE),
        PageElement(ref=6, tag="input_text", is_read_only=True, **PLACE),
        PageElement(ref=9, tag="rect", color="#ff0000", classes="a b", **PLACE),
    ],
)


def test_the_goal_and_each_element_are_described_in_a_line():
    assert TEXT.describe(SEEN).splitlines() == [
        'Goal: Enter "Al \\ Bo" and press Submit.',
        '3 input_text #tt value "abc" focused (30, 70)',
        '4 button "Submit" (30, 70)',
        '7 select value "Red" options "Red", "Dark blue" (30, 70)',
        "8 input_checkbox unchecked disabled (30, 70)",
        "6 input_text read-only (30, 70)",
        "9 rect .a .b #ff0000 (30, 70)",
    ]


def test_an_error_and_a_screenshot_follow_the_elements():
    failed = SEEN.model_copy(update={"elements": [], "error": "x is not defined", "screenshot": "aGk="})

    text, shot = TEXT.describe(failed)
    assert text["text"].splitlines()[-1] == "Error: x is not defined"
    assert shot == {"type": "image", "image": "data:image/png;base64,aGk=", "name": "screenshot"}


@pytest.mark.parametrize(
    ("reply", "fields"),
    [
        ("click(4)", {"kind": "click", "ref": 4}),
        ('click("4")', {"kind": "click", "ref": 4}),
        ("click(80, 120.5)", {"kind": "click", "x": 80, "y": 120.5}),
        ("dblclick(4)", {"kind": "dblclick", "ref": 4}),
        ("hover( 4 )", {"kind": "hover", "ref": 4}),
        ("drag_and_drop(3, 4)", {"kind": "drag_and_drop", "ref": 3, "to_ref": 4}),
        ("drag_and_drop(3, 9, 60)", {"kind": "drag_and_drop", "ref": 3, "to_x": 9, "to_y": 60}),
        ("drag_and_drop(1, 2, 3, 4)", {"kind": "drag_and_drop", "x": 1, "y": 2, "to_x": 3, "to_y": 4}),
        ('fill(3, "a \\"b\\" (c), d)")', {"kind": "fill", "ref": 3, "text": 'a "b" (c), d)'}),
        ("fill(3, 'it')", {"kind": "fill", "ref": 3, "text": "it"}),
        ("fill(3, 12)", {"kind": "fill", "ref": 3, "text": "12"}),
        ('fill(3, "")', {"kind": "fill", "ref": 3, "text": ""}),
        ('type("a\\nb")', {"kind": "type", "text": "a\nb"}),
        ('type(3, "a")', {"kind": "type", "ref": 3, "text": "a"}),
        ('press("Control+a")', {"kind": "press", "key": "Control+a"}),
        ('press(3, "Enter")', {"kind": "press", "ref": 3, "key": "Enter"}),
        ('select_option(7, "Dark blue")', {"kind": "select_option", "ref": 7, "option": "Dark blue"}),
        ("scroll(-50)", {"kind": "scroll", "delta_y": -50}),
        ("scroll(3, 50)", {"kind": "scroll", "ref": 3, "delta_y": 50}),
        ("scroll(20, 90, 50)", {"kind": "scroll", "x": 20, "y": 90, "delta_y": 50}),
        ("noop()", {"kind": "noop"}),
        ("I could click(3), but first:\n```\nclick(4)\n```", {"kind": "click", "ref": 4}),
        ("click(3) or click(4).\nAnswer: click(4)", {"kind": "click", "ref": 4}),
    ],
)
def test_a_reply_is_read_by_its_call_and_worded_again(reply, fields):
    action = TEXT.parse(reply, SEEN)

    assert action == BrowserAction(**fields)
    assert TEXT.problem(reply, SEEN) == ""
    assert TEXT.parse(TEXT.wording(action, SEEN), SEEN) == action


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ("Submit", "has no call such as click(3). Calls: noop, click,"),
        ("jump(3)", "has no call"),
        ("click(5)", "click(5): ref=5 is none of 3, 4, 7, 8, 6, 9."),
        ("click([4])", "click([4]): ref=[4] is none of"),
        ("drag_and_drop(3, 5)", "to_ref=5 is none of"),
        ("click()", "click() has 0 arguments. Write click(ref) or click(x, y)."),
        ("click(Submit)", "click(Submit) cannot be read. Write numbers, and texts in quotation marks."),
        ("fill(3, abc)", "cannot be read"),
        ("click(200, 10)", "click(200, 10): Input should be less than 160"),
        ('click("a", 10)', "valid number"),
        (f'type("{"a" * 1001}")', "at most 1000 characters"),
        ("click(3), or click(4)", "has 2 different calls. Write one."),
        ("noop(3)", "noop(3) has 1 arguments. Write noop()."),
    ],
)
def test_a_wrong_reply_names_no_action_and_its_problem_is_stated(reply, problem):
    assert TEXT.parse(reply, SEEN) is None
    assert problem in TEXT.problem(reply, SEEN)


def test_random_replies_are_legal_and_use_what_the_page_offers():
    rng = Random(1)
    drawn = [TEXT.random_reply(SEEN, rng) for _ in range(200)]

    assert all(TEXT.parse(reply, SEEN) == action for reply, action in drawn)
    assert {action.kind for _, action in drawn} == {"click", "fill", "select_option"}
    assert {action.text for _, action in drawn if action.kind == "fill"} == {"Al \\ Bo"}
    assert {action.option for _, action in drawn if action.option} == {"Red", "Dark blue"}
    assert {action.kind for _, action in drawn if action.ref == 6} == {"click"}, "it is read-only"
    assert 8 not in {action.ref for _, action in drawn}, "it is disabled"


def test_random_play_waits_where_there_is_nothing_to_do():
    assert TEXT.random_reply(BrowserObservation(utterance="Wait."), Random(1))[0] == "noop()"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "jump"}, "Input should be 'noop', 'click'"),
        ({"kind": "click"}, "ref: click needs ref alone, or x and y"),
        ({"kind": "click", "ref": 3, "x": 4, "y": 4}, "ref: click needs ref alone, or x and y"),
        ({"kind": "click", "x": 4}, "ref: click needs ref alone, or x and y"),
        ({"kind": "click", "ref": 0}, "greater than or equal to 1"),
        ({"kind": "click", "ref": 3, "text": "a"}, "text='a': click does not take it. Give click ref, or x and y."),
        ({"kind": "drag_and_drop", "ref": 3}, "to_ref: drag_and_drop needs to_ref alone, or to_x and to_y"),
        ({"kind": "fill", "ref": 3}, "text: fill needs it. Give fill ref; text."),
        ({"kind": "fill", "text": "a"}, "ref: fill needs it"),
        ({"kind": "press"}, "key: press needs it"),
        ({"kind": "select_option", "ref": 3}, "option: select_option needs it"),
        ({"kind": "scroll"}, "delta_y: scroll needs it"),
        ({"kind": "scroll", "delta_y": 5, "x": 3}, "ref: scroll needs ref alone, or x and y"),
        ({"kind": "scroll", "delta_y": 5000}, "less than or equal to 1000"),
        ({"kind": "noop", "ref": 3}, "ref=3: noop does not take it. Give noop no other field."),
    ],
)
def test_an_action_with_wrong_fields_is_an_error_that_names_the_field(fields, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(").replace(".", r"\.")):
        BrowserAction(**fields)


@pytest.mark.parametrize("piece", ['click("\\', 'click(\\"', "click('\\'", "click(3", 'click("'])
def test_a_long_reply_of_calls_without_an_end_is_read_at_once(piece):
    begun = time.process_time()
    for begin in ("", "click("):
        assert TEXT.parse(begin + piece * (100_000 // len(piece)), SEEN) is None

    assert time.process_time() - begun < 10.0
