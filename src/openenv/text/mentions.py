"""Finds what a text names among many words, and whether it affirms it: choices, numbers, and words for numbers."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Iterator
from itertools import islice
from typing import Any, Literal, NamedTuple

CORRECTION = re.compile(
    r"\b(?:no,? wait|wait|scratch that|on second thoughts?|never ?mind|correction|actually,? no)\b"
    r"|\blet me (?:re|correct)",
    re.IGNORECASE,
)
"""Words after which what was said before no longer counts."""
_SENTENCE = re.compile(r"(?<![.!?;:])[.!?;:]+(?=[\"'”’)*]*(?:\s|\Z))|。|\n")
_TURN = re.compile(r"\b(?:so|(?<!thing )but|therefore|thus|hence)\b", re.IGNORECASE)
"""Words after which a sentence no longer denies what it names."""
_NOT_BEFORE = re.compile(
    r"\b(?:not|never|neither|nor|cannot|without|avoid|refus\w+|declin\w+|exclud\w+|reject\w*|dont|wont|cant"
    r"|(?:any|every)thing but|afraid to|(?:foolish|unwise|wrong|bad|risky|mistake|worse|dangerous) to"
    r"|worst (?:\w+ ){1,2}(?:is|would be)"
    r"|nicht|kein\w*|niemals|ne|pas|jamais|nunca|jamás|não|mai|не|нет|никогда)\b"
    r"|n[’']t\b|\bno\b(?!,| doubt\b| question\b)|\bagainst (?:an? |the )?\W*\Z"
    r"|\b(?:came from|com(?:e|ing) from|tried|already (?:guessed|played|said)"
    r"|players? (?:must|may|might|can|could|ha(?:s|ve) to)"
    r"|(?:dealer|opponent|enemy) (?:must|will|would|may|might|can|could|has to|always|usually))\b[^,]*\Z"
    r"|[不别別勿沒没]",
    re.IGNORECASE,
)
_NOT_AFTER = re.compile(
    r"[\"'`*_)]*\s*=\s*(?:bad|wrong)\b"
    r"|[\"'`*_)]*\s+(?:(?!(?:because|since|as|and|if|when|for|so|to|with|while)\b)\w+\s+){0,2}"
    r"(?:(?:not|never|cannot|wrong|bad|incorrect|illegal|impossible|invalid|unavailable|risky|terrible|awful"
    r"|foolish|unwise|dangerous|useless|worst|worse|blocked|closed|locked|taken|occupied|loses?|busts?|leads? to a dead"
    r"|too\s+\w+)\b"
    r"|\w+n[’']t\b)",
    re.IGNORECASE,
)
_OPEN_BEFORE = re.compile(
    r"\b(?:if|whether|unless|instead of|rather than|other than|except|besides|w(?:as|ere) (?:going|about) to)\b"
    r"|\b(?:above|below|over|under|than|beyond|between|at least|at most|up to|each|every)\W*$",
    re.IGNORECASE,
)
_THING = (
    r"(?:walls?|doors?|exit|goal|target|keys?|food|apples?|ball|paddle|enem(?:y|ies)|opponent|monsters?|ghosts?|agent|robot"
    r"|head|tail|rooms?|obstacles?|lava|fire|pits?|holes?|cliff|treasure|coins?|box(?:es)?|corridor|river)"
)
_PLACE = r"(?:(?:just|directly|straight) )?(?:(?:to|on|at|in|towards?) )?(?:(?:the|my|your|our|its) )?"
_STATED_BEFORE = re.compile(
    rf"(?<!to the )\b{_THING} (?:is|are|was|were|lies|sits|stands) {_PLACE}\Z"
    rf"|\b(?:there(?:[’']s| is| are)|see|and) (?:an?|another|some) (?:\w+ )?{_THING} {_PLACE}\Z"
    r"|(?:\b(?:am|is|are|was|were)|[’'](?:m|s|re)) facing \Z",
    re.IGNORECASE,
)
_LIES_BEFORE = re.compile(rf"(?:\b(?:am|is|are|was|were)|[’'](?:m|s|re)) {_PLACE}\Z", re.IGNORECASE)
_NEXT_CLAUSE = re.compile(rf"[,.;!\n]|\A and an?(?:other)? |\A[^\0]*\Z|{_TURN.pattern}", re.IGNORECASE)
_LIES_AFTER = re.compile(r"\s+of\s+(?:me|us|it|you|here|the|my|our|your)\b", re.IGNORECASE)
_DENIES_OBJECT = re.compile(
    r"(?:\b(?:not|never|avoid|instead of|rather than)|n[’']t)"
    r"(?:\s+(?:use|send|play|choose|pick|call|write|reply|answer|return)(?: with)?)?[\s\"'`*(]*\Z",
    re.IGNORECASE,
)
_IDLE = re.compile(
    r"\b(?:that|you|this|it)(?:[’']s|[’']re| is| are) (?:\w+ )?right\b|\ball right\b|\bright (?:now|away)\b"
    r"|\b(?:ha(?:s|ve|d)|are|is|with|only) \d+ left\b"
    r"|\b(?:guesses|tries|attempts|lives|cards|points)(?: are| is)? left\b"
    r"|\b(?:\d+|no|few|more|many) (?!(?:steps?|squares?|cells?|spaces?|columns?|places?|tiles?|units?|times)\b)"
    r"\w+ left\b"
    r"|\b(?:moves|steps|turns) left:|\boh,? no\b|\bwait (?:a|for|until)\b",
    re.IGNORECASE,
)
"""Phrases in which `left`, `right` or `wait` is no choice."""
_ENDS_CLAUSE = re.compile(r"[\"'`*_)\]]*(?:[.,;:!\n]|\s*\Z)")
MOST_MENTIONS = 1000
"""A text with more mentions names nothing: its model has lost itself in a loop."""
_NEAR = 300
"""Characters of a sentence, to each side of a mention, that are read."""
COMMON_WORDS = ("one", "no", "a", "i")
"""Words that mean a choice only where a clause ends after them, or after a word such as `option`."""
_INTRODUCED = re.compile(r"\b(?:option|choice|letter|number|answer|column|row|cell)\W*$", re.IGNORECASE)
_CHOSEN = re.compile(r"\b(?:choose|pick)\W*$", re.IGNORECASE)
_GIVES_REASON = re.compile(r"\s+(?:because|since|as|for|so|now|here)\b", re.IGNORECASE)
_LISTED = re.compile(r"(?:\A|\n)[ \t>*_(-]*\Z")
_POINTED = re.compile(
    r"\b(?:this|that|the|which|each|any|every|no|another|other|only|best|right|correct|last|first)\s+$", re.I
)


class Mention(NamedTuple):
    """A place of a text that names something."""

    start: int
    end: int
    name: Any
    is_open: bool = False
    """Whether it is part of a range or an expression, which names nothing for certain."""


def only_named(text: str, mentions: Iterable[Mention]) -> Any:
    """The one name that a text affirms; None where it names several or none, or denies it, or only asks.

    `don't hit` and `hit is not good` deny; `if you hit` and `hit?` leave it open, and so does all before `wait`. What
    describes the situation, as in `a wall is north`, names nothing.
    """
    found = list(islice(mentions, MOST_MENTIONS + 1))
    if len(found) > MOST_MENTIONS:
        return None
    masked = _without(text, found)
    corrected = max((match.start() for match in CORRECTION.finditer(masked)), default=-1)
    breaks = [match.span() for match in _SENTENCE.finditer(masked)]
    starts, stops = [end for _, end in breaks], [start for start, _ in breaks]
    kinds: dict[str, set[Hashable]] = {"affirmed": set(), "denied": set(), "open": set()}
    for mention in found:
        begun = bisect_right(starts, mention.start)
        ended = bisect_left(stops, mention.end)
        start = max(starts[begun - 1] if begun else 0, mention.start - _NEAR)
        stop, end = breaks[ended] if ended < len(breaks) else (len(text), len(text))
        before, after = masked[start : mention.start], masked[mention.end : min(stop, mention.end + _NEAR)]
        if _is_stated(mention, before, after) and _NEXT_CLAUSE.search(after):
            continue  # what follows may be chosen
        is_open = mention.is_open or corrected >= mention.end or "?" in masked[stop:end]
        kinds["open" if is_open else _kind(before, after)].add(mention.name)
    named = kinds["affirmed"] | kinds["open"]
    if len(named) != 1 or named != kinds["affirmed"] or named & kinds["denied"]:
        return None
    return next(iter(named))


def _kind(before: str, after: str) -> Literal["affirmed", "denied", "open"]:
    """What the parts of a sentence before and after a mention say of it."""
    before = _TURN.split(before)[-1]
    if _NOT_BEFORE.search(before) or _NOT_AFTER.match(after):
        return "denied"
    return "open" if _OPEN_BEFORE.search(before) else "affirmed"


def is_denied(text: str, start: int) -> bool:
    """Whether the words right before a place deny what stands there, as in `do not use {...}`."""
    return bool(_DENIES_OBJECT.search(text, max(0, start - _NEAR // 10), start))


def _is_stated(mention: Mention, before: str, after: str) -> bool:
    """Whether a word describes where something is, and no choice, as `north` does in `the goal is to the north`."""
    if number_of(str(mention.name)) is not None:
        return False
    return bool(_STATED_BEFORE.search(before) or (_LIES_AFTER.match(after) and _LIES_BEFORE.search(before)))


def is_meant(text: str, start: int, end: int) -> bool:
    """Whether a common word stands where a choice would."""
    before = text[max(0, start - _NEAR) : start]
    if _INTRODUCED.search(before) or (text[end : end + 1] == ")" and _LISTED.search(before)):
        return True
    if _CHOSEN.search(before) and _GIVES_REASON.match(text, end):
        return True
    is_article = text[start:end] == "a"
    return bool(_ENDS_CLAUSE.match(text, end) and not is_article and not _POINTED.search(before))


def phrases(text: str) -> list[tuple[int, int]]:
    """The places of phrases whose words are no choices, such as `that's right` and `3 lives left`."""
    return [match.span() for match in _IDLE.finditer(text)]


def _without(text: str, mentions: Iterable[Mention]) -> str:
    """The text with other characters at the places of mentions, whose words may be `not` or `no`."""
    parts, last = [], 0
    for start, end in sorted((mention.start, mention.end) for mention in mentions):
        parts += [text[last:start], "\x00" * (end - max(start, last))]
        last = max(last, end)
    return "".join((*parts, text[last:]))


_UNITS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS = {
    ten: 10 * n
    for n, ten in enumerate(("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"), 2)
}
NUMBER_WORDS = {
    **{word: value for value, word in enumerate(_UNITS)},
    **_TENS,
    **{f"{ten}-{one}": value + unit for ten, value in _TENS.items() for unit, one in enumerate(_UNITS[1:10], 1)},
    "hundred": 100,
    "one hundred": 100,
}
_DIGITS = r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+"
_NUMBER = re.compile(rf"(?<![\w.])(?P<digits>(?:{_DIGITS})(?:[eE][-+]?[0-9]+)?)(?!\w)(?!\.[0-9])")
_ANY_WORD = "|".join(sorted(NUMBER_WORDS, key=len, reverse=True))
_WORD = re.compile(rf"\b(?:{_ANY_WORD.replace('-', '[- ]')})\b(?!-)", re.IGNORECASE)
_SCALE = r"hundred|thousand|million|billion|trillion|dozen"
_WHOLE = re.compile(r"(?P<sign>[-+])?(?P<value>.+)", re.IGNORECASE | re.DOTALL)
_SIGN_BEFORE = re.compile(r"(?:\A|(?<=[\s(\[{=:,;\"'`*$|>]))[-+][$€£¥\u200b-\u200d\u2060]?\Z")
_OPEN_NUMBER_BEFORE = re.compile(
    r"(?:\w[-/^×·÷]|[\d)][*:+]|[\d)][ \t]+[-*/^×·÷+][ \t]+|(?:\A|\s)[-+]\s+|[-+]{2}|[±~≈≠⁻₋➖][ \t]*|!=[ \t]*"
    r"|(?:\A|[\s\w])[<≤≥]=?[ \t]*|(?:\A|\s|(?<![\w</-])\w)>=?[ \t]*"
    r"|[\d.][ \t]*(?:to|through|or|\.\.+|…)[ \t]*|\bbetween[ \t]+\S+[ \t]+and[ \t]+|\b(?:minus|negative|plus)[\s-]+"
    rf"|\b(?:twice|double|triple|half(?:[ \t]of)?|times|divided[ \t]by|point|{_ANY_WORD}|{_SCALE})[ \t-]+"
    r"|(?:sqrt|frac|\b(?:log|ln|exp|sin|cos|tan))(?:[ \t]*[({]|[ \t])-?)\Z",
    re.IGNORECASE,
)
_OPEN_NUMBER_AFTER = re.compile(
    r"[ \t]*(?:\\?%|[°±½¼¾⅓⅔]|per[ \t]?cent\b|and[ \t]a[ \t]half\b)|[-*/^×·÷:+][\d.(]"
    r"|[ \t]+[-*/^×·÷+=][ \t]+[\d.(]|[ \t]*(?:to|through|or|\.\.+|…)[ \t]*[-+]?\d"
    r"|[ \t]*(?:<=?(?![a-z/|]+>)|>=|≤|≥|≠)[ \t]*[\w(]"
    rf"|[ \t-]+(?:{_SCALE}|{_ANY_WORD}|squared|cubed|point|times[ \t]+[\d.]|plus|minus|divided)\b",
    re.IGNORECASE,
)
_NO_VALUE_BEFORE = re.compile(r"\b(?:step|turn|round|attempt)[ \t]+\Z", re.IGNORECASE)
_NO_VALUE_AFTER = re.compile(
    r"-(?:indexed|based)\b|[ \t]+(?:more[ \t]+)?(?:guesses|tries|attempts|lives)\b"
    r"|[ \t]+(?:\w+[ \t]+)?(?:left|remaining)\b",
    re.IGNORECASE,
)
"""What makes a number a count of something else: `step 1:`, `0-indexed`, `3 guesses left`."""
_IN_BEFORE = re.compile(r"\b(?:in|after|within)[ \t]+\Z", re.IGNORECASE)
_STEPS_AFTER = re.compile(r"[ \t]+(?:more[ \t]+)?(?:steps?|moves?|turns?|rounds?)\b", re.IGNORECASE)
_OR = re.compile(r"[ \t]*(?:(?:or|to|and|through)\b|/)", re.IGNORECASE)
_MINUS = (0x2010, 0x2011, 0x2012, 0x2013, 0x2014, 0x2015, 0x2212, 0xFE58, 0xFE63)
_PLAIN = {
    **{code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)},
    **dict.fromkeys(_MINUS, ord("-")),
    **dict.fromkeys((0xA0, 0x202F), ord(" ")),
}


def plain_signs(text: str) -> str:
    """A text of the same length with `-` for each kind of minus and dash, and plain letters for those of full width."""
    return text.translate(_PLAIN)


def number_of(text: str) -> float | None:
    """The number that a text is, in digits or in words, with its sign; None for another text."""
    digits = number_text(text)
    return None if digits is None else float(digits)


def number_text(text: str) -> str | None:
    """The same in digits, as they were written."""
    parts = _WHOLE.fullmatch(plain_signs(text).strip())
    if parts is None:
        return None
    value = parts["value"].lower()
    word = NUMBER_WORDS.get(re.sub(r"(?<=y)[ -]+", "-", value))
    if word is None and not _NUMBER.fullmatch(value):
        return None
    return _signed(parts["sign"] or "", value.replace(",", "") if word is None else str(word))


def numbers(text: str, *, words: bool = True, most: int = MOST_MENTIONS) -> list[Mention]:
    """The numbers in a text, named by their digits. A word for one counts where a clause ends after it.

    A range such as `3-5`, a sum, a percentage, and a sign in words or apart from its number are open. Of a text with
    more than `most` numbers one more than that is read.
    """
    plain = plain_signs(text)
    found = islice(_in_digits(plain), most + 1)
    return sorted([*found, *islice(_in_words(plain), most + 1)] if words else found)


def _in_digits(plain: str) -> Iterator[Mention]:
    for match in _NUMBER.finditer(plain):
        if not _is_count(plain, *match.span()):
            yield _number(plain, match, match["digits"].replace(",", ""))


def _in_words(plain: str) -> Iterator[Mention]:
    for match in _WORD.finditer(plain):
        digits = str(_word_value(match[0]))
        if _OR.match(plain, match.end()):
            yield Mention(*match.span(), digits, is_open=True)
        elif _ENDS_CLAUSE.match(plain, match.end()) and (match[0].lower() != "one" or is_meant(plain, *match.span())):
            yield _number(plain, match, digits)


def _is_count(text: str, start: int, end: int) -> bool:
    """Whether a number counts something else than an action: a step of the reasoning, or what is left."""
    is_label = text[end : end + 1] == ":" and _NO_VALUE_BEFORE.search(text, max(0, start - _NEAR // 10), start)
    is_time = _STEPS_AFTER.match(text, end) and _IN_BEFORE.search(text, max(0, start - _NEAR // 10), start)
    return bool(is_label or is_time or _NO_VALUE_AFTER.match(text, end))


def _word_value(word: str) -> int:
    lower = word.lower()
    return NUMBER_WORDS[lower] if lower in NUMBER_WORDS else NUMBER_WORDS[lower.replace(" ", "-")]


def _number(text: str, match: "re.Match[str]", digits: str) -> Mention:
    """A number with the sign before it."""
    start = match.start()
    before = text[max(0, start - _NEAR // 10) : start]
    sign = _SIGN_BEFORE.search(before)
    if sign is not None:
        digits, start = _signed(sign[0][0], digits), start - len(sign[0])
    is_open = bool(sign is None and _OPEN_NUMBER_BEFORE.search(before))
    return Mention(start, match.end(), digits, is_open or bool(_OPEN_NUMBER_AFTER.match(text, match.end())))


def _signed(sign: str, digits: str) -> str:
    return f"-{digits}" if sign == "-" else digits
