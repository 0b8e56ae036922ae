"""The events of the keyboard, by the names of keys that web pages know."""

from typing import Any

from openenv.envs.browser_env.server.chromium import Refused

_NAMED = {
    "Enter": ("Enter", 13, "\r"),
    "Tab": ("Tab", 9, ""),
    "Backspace": ("Backspace", 8, ""),
    "Delete": ("Delete", 46, ""),
    "Escape": ("Escape", 27, ""),
    "Space": ("Space", 32, " "),
    "ArrowLeft": ("ArrowLeft", 37, ""),
    "ArrowUp": ("ArrowUp", 38, ""),
    "ArrowRight": ("ArrowRight", 39, ""),
    "ArrowDown": ("ArrowDown", 40, ""),
    "PageUp": ("PageUp", 33, ""),
    "PageDown": ("PageDown", 34, ""),
    "Home": ("Home", 36, ""),
    "End": ("End", 35, ""),
}
"""Keys with a name: the code, the virtual key code, and what it writes."""
_MODIFIERS = {"Alt": (1, 18), "Control": (2, 17), "Meta": (4, 91), "Shift": (8, 16)}
"""The bit of each modifier, and its virtual key code."""
_PUNCTUATION = {
    **dict.fromkeys(";:", ("Semicolon", 186)),
    **dict.fromkeys("=+", ("Equal", 187)),
    **dict.fromkeys(",<", ("Comma", 188)),
    **dict.fromkeys("-_", ("Minus", 189)),
    **dict.fromkeys(".>", ("Period", 190)),
    **dict.fromkeys("/?", ("Slash", 191)),
    **dict.fromkeys("`~", ("Backquote", 192)),
    **dict.fromkeys("[{", ("BracketLeft", 219)),
    **dict.fromkeys("\\|", ("Backslash", 220)),
    **dict.fromkeys("]}", ("BracketRight", 221)),
    **dict.fromkeys("'\"", ("Quote", 222)),
}
_SHIFTED = dict(zip(")!@#$%^&*(", "0123456789", strict=True))


def key_events(key: str) -> list[dict[str, Any]]:
    """The events of a key with its modifiers, such as `Enter`, `a` or `Control+a`. Raises Refused for another."""
    *held, name = key.split("+") if len(key) > 1 and not key.endswith("++") else [*key[:-2].split("+"), "+"]
    held = [modifier for modifier in held if modifier]
    if any(modifier not in _MODIFIERS for modifier in held) or not (name in _NAMED or _is_character(name)):
        raise Refused(
            f"key={key!r}: expected a character or one of {', '.join(_NAMED)}, perhaps after "
            f"{', '.join(f'{modifier}+' for modifier in _MODIFIERS)}."
        )
    bits = sum(_MODIFIERS[modifier][0] for modifier in set(held))
    events = []
    for kind, modifiers in (("rawKeyDown", held), ("keyUp", held[::-1])):
        pressed = [{"type": kind, "key": one, "windowsVirtualKeyCode": _MODIFIERS[one][1]} for one in modifiers]
        events.append(pressed)
    return [*events[0], *_presses(name, bits), *events[1]]


def typed_events(text: str) -> list[dict[str, Any]]:
    """The events of a text, a key for each character; a line break is Enter, a tab is Tab."""
    names = {"\n": "Enter", "\t": "Tab"}
    return [event for character in text for event in _presses(names.get(character, character), 0)]


def _presses(name: str, modifiers: int) -> list[dict[str, Any]]:
    """The events of one key, down and up. modifiers: their bits."""
    code, number, written = _NAMED.get(name) or (*_place(name), name)
    event: dict[str, Any] = {
        "key": " " if name == "Space" else name,
        "code": code,
        "windowsVirtualKeyCode": number,
        "modifiers": modifiers,
    }
    down = {"type": "rawKeyDown", **event}
    if written and not modifiers & ~_MODIFIERS["Shift"][0]:
        down |= {"type": "keyDown", "text": written}
    return [down, {"type": "keyUp", **event}]


def _place(character: str) -> tuple[str, int]:
    """The code and the virtual key code of a character on a keyboard of the United States; of others nothing and 0."""
    if character.isascii() and character.isalpha():
        return f"Key{character.upper()}", ord(character.upper())
    digit = _SHIFTED.get(character, character)
    if digit.isascii() and digit.isdigit():
        return f"Digit{digit}", ord(digit)
    return ("Space", 32) if character == " " else _PUNCTUATION.get(character, ("", 0))


def _is_character(name: str) -> bool:
    return len(name) == 1 and name.isprintable()
