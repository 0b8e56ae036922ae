"""A player that reads the goals of five tasks, and random clicks in MiniWoB's own environment."""

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from random import Random

from openenv.envs.browser_env.models import BrowserAction, BrowserObservation, PageElement
from openenv.envs.browser_env.server.chromium import PROGRAM

DRIVER = "chromedriver"
_QUOTED = re.compile(r'"([^"]+)"')
_ORDINAL = re.compile(r"(\d+)(?:st|nd|rd|th)")
_CHOSEN = re.compile(r"Select (.+?)(?: from the list)? and click")
_FIELDS = ("input_text", "input_password", "textarea")


def random_clicks(task: str) -> Iterator[int]:
    """MiniWoB's own environment, which drives a Chromium by selenium: clicks on random elements, no screenshots."""
    from miniwob.action import ActionTypes  # loads selenium, which the server does without
    from miniwob.environment import MiniWoBEnvironment

    _name_programs()
    env, rng, seed = MiniWoBEnvironment(subdomain=task), Random(0), 0
    env.set_record_screenshots(False)
    try:
        while True:
            seen, done = env.reset(seed=seed)[0], False
            seed += 1
            while not done:
                refs = [element["ref"] for element in seen["dom_elements"] if element["ref"] > 0]
                seen, _, done, _, _ = env.step(env.create_action(ActionTypes.CLICK_ELEMENT, ref=rng.choice(refs)))
                yield 1
    finally:
        env.close()


def _name_programs() -> None:
    """Let MiniWoB find the programs. Raises RuntimeError, naming Debian's packages, if one is missing."""
    for variable, program in (("MINIWOB_CHROME_BINARY", PROGRAM), ("MINIWOB_CHROMEDRIVER", DRIVER)):
        path = shutil.which(program)
        if path is None:
            raise RuntimeError(
                f"{program} is missing. Install Debian's packages: apt-get install chromium chromium-driver"
            )
        os.environ.setdefault(variable, path)


def follow_goal(seen: BrowserObservation, _: Random) -> BrowserAction:
    """What the words of the goal ask for: fill the fields, choose the options, then click what is named."""
    fields = [element for element in seen.elements if element.tag in _FIELDS]
    quoted = _QUOTED.findall(seen.utterance)
    if seen.utterance.startswith("Focus"):
        ordinal = _ORDINAL.search(seen.utterance)
        return _click(fields[int(ordinal[1]) - 1 if ordinal else 0])
    if seen.utterance.startswith("Enter") and quoted:
        for number, field in enumerate(fields):
            text = quoted[min(number, len(quoted) - 1)]
            if field.value != text:
                return BrowserAction(kind="fill", ref=field.ref, text=text)
        return _click(_button(seen))
    chosen = _CHOSEN.search(seen.utterance)
    if chosen is not None:
        return _choose(seen, chosen[1])
    named = [element for element in seen.elements if element.text and element.text in (quoted or seen.utterance)]
    return _click(max(named or seen.elements, key=lambda element: len(element.text)))


def _choose(seen: BrowserObservation, wanted: str) -> BrowserAction:
    """Choose an option of a list, or the radio buttons and checkboxes beside the texts; then press the button."""
    for element in seen.elements:
        if wanted in element.options and element.value != wanted:
            return BrowserAction(kind="select_option", ref=element.ref, option=wanted)
    texts = [] if wanted == "nothing" else wanted.split(", ")
    for label, box in zip(seen.elements, seen.elements[1:], strict=False):
        if box.is_checked is False and label.text in texts:
            return _click(box)
    return _click(_button(seen))


def _button(seen: BrowserObservation) -> PageElement:
    buttons: Sequence[PageElement] = [element for element in seen.elements if element.tag == "button"]
    return buttons[-1]


def _click(element: PageElement) -> BrowserAction:
    return BrowserAction(kind="click", ref=element.ref)
