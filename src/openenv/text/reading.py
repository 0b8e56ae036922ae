"""Reads what a language model's reply says: its marked answer, the choice or the numbers that it names, its objects.

All forms of replies, and the text interfaces that read their own, use these functions. They are lenient where a reply
leaves no doubt, and name nothing where it does: an action that a model did not choose is worse than none. A reply that
names two actions names none, unless it marks one as its answer.
"""

import re
import string
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import combinations, islice

from openenv.text.mentions import (
    COMMON_WORDS,
    CORRECTION,
    MOST_MENTIONS,
    NUMBER_WORDS,
    Mention,
    is_meant,
    number_of,
    number_text,
    numbers,
    only_named,
    phrases,
    plain_signs,
)
from openenv.text.objects import objects_in

_THINKS = r"(?:seed:)?(?:think|thinking|thoughts?|reasoning|analysis|reflection|scratchpad)\s*"
THOUGHT = re.compile(
    rf"(?P<begin><{_THINKS}>|\[THINK\]|◁think▷|<\|begin_of_thought\|>|<\|thinking\|>|<unused94>|<\|channel>thought"
    r"|<\|channel\|>analysis[^<]*<\|message\|>)"
    rf"|</{_THINKS}>|\[/THINK\]|◁/think▷|<\|end_of_thought\|>|<\|/thinking\|>|<unused95>|<channel\|>"
    r"|<\|channel\|>(?!analysis)\w+[^<]*(?:<\|constrain\|>\w+\s*)?<\|message\|>",
    re.IGNORECASE,
)
"""The marks around the thinking of the models that are common, those of gpt-oss's channels among them."""
_ENDS_TURN = (
    *("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<|return|>", "<|call|>", "<|endoftext|>"),
    *("<|end_of_text|>", "<|end_of_solution|>", "</s>", "<eos>", "<end_of_turn>"),
)
_TAG = r"(?:final_?)?(?:answer|action|move|choice|guess|decision)"
_WORDS = (
    r"(?:answer|action|move|choice|guess|decision|recommendation|selection"
    r"|antwort|réponse|respuesta|risposta|resposta|ответ|答案|回答)"
)
_MARKS = re.compile(
    rf"<{_TAG}>(?P<tag>(?:(?!<{_TAG}>).)*?)</{_TAG}>"
    rf"|<{_TAG}>(?P<open>(?:(?!<{_TAG}>).)*)\Z"
    r"|\\(?:boxed|fbox)\{(?P<box>(?:[^{}]|\{[^{}]*\})*)\}"
    r"|(?:^|(?<=[\n.!?;:,(*#>。]))[ \t>*_#(-]{0,8}"
    r"(?:(?:(?:so|my|the|your|and) )?(?:(?:final|best|correct|chosen) )?"
    rf"(?:answer[*_ \t]*\n\s*|{_WORDS}(?: is| would be)?[*_ \t]*[:：][*_ \t]*(?:\n\s*)?)"
    r"|(?<=####)[ \t]+)(?P<line>[^\n]*?)(?=</|\n|\Z)"
    r"|\b(?:final |best |correct )?answer is(?! not\b)\W{0,6}?\s(?P<rest>.*)\Z",
    re.IGNORECASE | re.DOTALL,
)
_STRUCK = re.compile(r"~~[^~\n]*~~")
_QUOTED = re.compile(r"^[ \t]*>[^\n]*(?:\n|\Z)|^Reply with one of (?:these:|the legal)[^\n]*(?:\n|\Z)", re.MULTILINE)
"""Lines that repeat the prompt: a quotation of Markdown, and the sentences of `openenv.text.sentences`."""
_ANSWER_KEYS = ("final_answer", "answer", "action", "move", "choice", "decision", "guess", "reply", "response")
_DEEPEST = 3
_NEXT_QUESTION = re.compile(r"^[^\w\n]*(?:user|human|question|q)\W*:", re.IGNORECASE | re.MULTILINE)
"""A model that goes on by itself with another question, whose answer is none to ours."""


def after_thinking(reply: str, *, is_thought: bool = False) -> str | None:
    """The part of a reply after its thinking; None where the thinking has no end, so that no answer follows.

    is_thought: whether the prompt has opened the thinking, so that the reply begins in it.
    """
    start = 0
    for mark in THOUGHT.finditer(reply):
        is_thought = mark["begin"] is not None
        start = mark.end()
    if is_thought:
        return None
    answer = reply[start:].lstrip() if start else reply
    while (plain := answer.rstrip()).endswith(_ENDS_TURN):
        answer = plain[: plain.rindex("<")].rstrip()
    return answer


def final_answer(reply: str, *, loose: bool = True, depth: int = 0) -> str:
    """What a reply marks as its answer: `Answer: hit`, `<answer>`, `\\boxed{}`; the whole reply without such a mark.

    The last mark counts. Where the reply corrects itself after it, the correction is part of the answer. loose: whether
    `the answer is` is a mark, too, after which the whole rest is the answer; so is the key `action` of an object, and
    what is struck out or repeats the prompt is not read. depth: number of marks around the reply.
    """
    reply = _own_words(reply) if loose and depth == 0 else reply
    marks = [mark for mark in _MARKS.finditer(reply) if loose or mark.lastgroup != "rest"]
    if not marks or depth > _DEEPEST:
        return (_value_in(reply) if loose else None) or reply.strip()
    last = marks[-1]
    is_next = _NEXT_QUESTION.search(reply, marks[0].end(), last.start())
    answer = "\n".join(mark[str(mark.lastgroup)].strip() for mark in (marks if is_next else [last]))
    after = reply[last.end() :]
    if CORRECTION.search(after):
        return f"{answer}\n{after}"
    is_nested = last.lastgroup != "box" and (loose or last.lastgroup in ("line", "rest")) and not is_next
    return final_answer(answer, loose=loose, depth=depth + 1) if is_nested else answer


def _own_words(reply: str) -> str:
    """A reply without what it strikes out, and without the lines that repeat the prompt, if it has others."""
    reply = _STRUCK.sub("", reply) if "~~" in reply else reply
    own = _QUOTED.sub("", reply)
    return own if own.strip() else reply


def _value_in(reply: str) -> str | None:
    """The answer in a reply with one JSON object: the value of its only key, or of the only one for an answer."""
    found = list(islice(objects_in(reply), 2)) if "{" in reply else []
    if len(found) != 1:
        return None
    keys = [key for key in found[0] if len(found[0]) == 1 or key.lower() in _ANSWER_KEYS]
    value = found[0][keys[0]] if len(keys) == 1 else None
    return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None


def said_in_full(reply: str) -> str | None:
    """The answer of a reply that was cut off, if it is between marks of which the last is there; else None."""
    closed = [mark for mark in _MARKS.finditer(reply) if mark.lastgroup in ("tag", "box")]
    return closed[-1][str(closed[-1].lastgroup)].strip() if closed else None


_FENCE = re.compile(r"```[\w+-]*+\s*+(.*?)```", re.DOTALL)
_LATEX = re.compile(r"\\(?:text|textbf|textit|texttt|textrm|mathrm|mathbf|mathtt|mathit)\{([^{}]*)\}")
_TEXT_PAIRS = ("**", "`", '"', "'", "“”", "‘’")
_PAIRS = ("**", "__", "*", "_", "`", '"', "'", "$$", "$", "“”", "‘’", "«»", "()", "[]", r"\(\)", r"\[\]")
_MOST_LAYERS = 10
"""Marks around the whole of a text, one around the other, that are taken off."""
_PUNCTUATION = f".!,;:{string.whitespace}"


def last_block(reply: str) -> str:
    """The content of the last code block of a reply; nothing without one."""
    return next((block[1].rstrip() for block in reversed(list(_FENCE.finditer(reply)))), "")


def unwrapped(text: str, *, pairs: Sequence[str] = _PAIRS) -> str:
    """A text without the marks around the whole of it: a code fence, bold, quotation marks, brackets."""
    for _ in range(_MOST_LAYERS):
        before, text = text, _LATEX.sub(r"\1", text.strip())
        fenced = _FENCE.fullmatch(text)
        text = fenced[1].rstrip() if fenced else text
        for pair in pairs:
            half = len(pair) // 2
            opening, closing = (pair[:half], pair[half:]) if pair[:half] != pair[half:] and half else (pair, pair)
            inner = text[len(opening) : -len(closing)]
            is_around = text.startswith(opening) and text.endswith(closing)
            if is_around and inner and opening not in inner and closing not in inner:
                text = inner
                break
        if text == before:
            break
    return text


def bare(text: str) -> str:
    """A text without the marks around it and the punctuation after it, with single spaces."""
    for _ in range(_MOST_LAYERS):
        before, text = text, unwrapped(text).rstrip(_PUNCTUATION).strip()
        if text == before:
            break
    return " ".join(text.split())


def named_in(reply: str, wordings: Iterable[str]) -> str | None:
    """The wording that a reply names: its marked answer, all of it, or the only one among its words; None for none.

    Letters may be of another case, unless wordings differ by it alone. A number may be a word, and a word that is a
    number its digits. A wording inside a longer one, such as `hit` in `double hit`, is not counted.
    """
    known, said = tuple(wordings), " ".join(reply.split())
    if said in known:
        return said
    choices = _choices(known)
    for text in (said, answer := final_answer(reply), bare(answer)):
        exact = choices.exactly(text)
        if exact is not None:
            return exact
    named: str | None = only_named(text := plain_signs(answer), choices.mentions(text))
    return named


def finished_in(reply: str, wordings: Iterable[str]) -> str | None:
    """The wording that a reply is which was cut off; None where it may have become another, as `1` becomes `12`."""
    choices = _choices(tuple(wordings))
    named = choices.exactly(bare(reply))
    return named if named is None or not choices.continues(bare(reply), named) else None


def number_in(reply: str) -> str | None:
    """The number that a reply names, in digits: its marked answer, all of it, or the only one in it; None for none."""
    answer = final_answer(reply)
    whole = number_text(bare(answer))
    named: str | None = whole if whole is not None else only_named(plain := plain_signs(answer), numbers(plain))
    return named


_LONGEST_ROW = 10_000


def row_in(reply: str) -> list[float] | None:
    """The numbers of a reply that is a row of them, in their order; None if one is open, as in `3-5`, or if they are
    more than any action has."""
    found = numbers(final_answer(reply), words=False, most=_LONGEST_ROW)
    is_row = len(found) <= _LONGEST_ROW and not any(number.is_open for number in found)
    return [float(number.name) for number in found] if is_row else None


def texts_in(reply: str) -> list[str]:
    """The texts that a reply can mean, the likeliest first: its marked answer or all of it, as it was written."""
    answer = unwrapped(final_answer(reply, loose=False), pairs=_TEXT_PAIRS)
    plain = unwrapped(answer.rstrip(".!,;:"), pairs=_TEXT_PAIRS)
    return list(dict.fromkeys((answer, plain, plain.lower(), plain.upper())))


_DIGITS = re.compile(r"[-+]?[0-9]+(?:\.[0-9]+)?")


class _Choices:
    """The wordings of a choice, prepared for reading."""

    def __init__(self, wordings: tuple[str, ...]) -> None:
        self._wordings = frozenset(wordings)
        lower: dict[str, list[str]] = {}
        for wording in wordings:
            lower.setdefault(_key(wording), []).append(wording)
        self._by_key = {key: same[0] for key, same in lower.items() if len(same) == 1}
        joined: dict[str, set[str]] = {}
        for wording in wordings:
            joined.setdefault(_joined(wording), set()).add(wording)
        self._by_joined = {key: next(iter(same)) for key, same in joined.items() if len(same) == 1}
        self._by_value: dict[float, str] = {}
        for wording in wordings:
            value = number_of(wording)
            if value is not None:
                self._by_value.setdefault(value, wording)

    @cached_property
    def _pattern(self) -> "re.Pattern[str] | None":
        """Finds wordings that are no digits, the longest at each place."""
        words = [wording for wording in self._wordings if not _DIGITS.fullmatch(plain_signs(wording))]
        any_word = "|".join(_pattern(word) for word in sorted(words, key=len, reverse=True))
        return re.compile(f"(?=({any_word}))", re.IGNORECASE) if words else None

    def exactly(self, text: str) -> str | None:
        """The wording that the whole text is."""
        if text in self._wordings:
            return text
        named = self._by_key.get(_key(text))
        value = number_of(text) if named is None else None
        if named is None and value is None:
            return self._by_key.get(_key(_BETWEEN.sub(" ", text))) or self._by_joined.get(_joined(text) or text)
        return named if value is None else self._by_value.get(value)

    @cached_property
    def _beside(self) -> dict[str, set[tuple[bool, str]]]:
        """The words beside a wording in longer ones, as `wild` beside `draw`: whether one stands before it, and it."""
        known = {tuple(_key(wording).split()): wording for wording in self._wordings}
        found: dict[str, set[tuple[bool, str]]] = {}
        for words in known:
            for start, end in combinations(range(len(words) + 1), 2):
                part = known.get(words[start:end]) if end - start < len(words) else None
                if part is not None:
                    found.setdefault(part, set()).update([(True, words[start - 1])] if start else [])
                    found[part].update([(False, words[end])] if end < len(words) else [])
            for cut in range(1, len(words[0])) if len(words) == 1 else ():
                first, last = words[0][:cut], words[0][cut:]
                if (last,) in known:
                    found.setdefault(known[(last,)], set()).add((True, first))
                if (first,) in known:
                    found.setdefault(known[(first,)], set()).add((False, last))
        return found

    def _is_part(self, mention: Mention, text: str) -> bool:
        """Whether a word beside a wording belongs to a longer wording that the text does not have as a whole."""
        beside = self._beside.get(mention.name)
        if not beside:
            return False
        before = _WORD_BEFORE.search(text, max(0, mention.start - _LONGEST_WORD), mention.start)
        after = _WORD_AFTER.match(text, mention.end)
        return bool((before and (True, before[1].lower()) in beside) or (after and (False, after[1].lower()) in beside))

    def mentions(self, text: str) -> list[Mention]:
        """The places that name a wording, without those inside longer ones."""
        found = [self._mention(match) for match in self._pattern.finditer(text)] if self._pattern else []
        if self._by_value:
            found += [
                number._replace(name=self._by_value[value])
                for number in numbers(text)
                if (value := float(number.name)) in self._by_value
            ]
        kept = _outermost([mention for mention in found if mention is not None])[: MOST_MENTIONS + 1]
        idle = phrases(text)
        return [
            mention._replace(is_open=True) if self._is_part(mention, text) else mention
            for mention in kept
            if not any(start <= mention.start and mention.end <= end for start, end in idle)
        ]

    def continues(self, text: str, named: str) -> bool:
        """Whether a text that is a wording can be the begin of another one."""
        said = _key(text)
        longer = {key for key in self._by_key if key.startswith(said)} - {said, _key(named)}
        words = {word: value for word, value in NUMBER_WORDS.items() if word.startswith(said) and word != said}
        return bool(longer) or any(value in self._by_value for value in words.values())

    def _mention(self, match: "re.Match[str]") -> Mention | None:
        said = match[1]
        start, end = match.span(1)
        name = said if said in self._wordings else self._by_key.get(_key(said))
        if name is None or (name.lower() in COMMON_WORDS and not is_meant(match.string, start, end)):
            return None
        return Mention(start, end, name)


@lru_cache(maxsize=512)
def _choices(wordings: tuple[str, ...]) -> _Choices:
    return _Choices(wordings)


_BETWEEN = re.compile(r"(?<=\w)[ \t]*[(\[][ \t]*(?=\d)|(?<=\d),[ \t]*(?=\d)|(?<=\d)[ \t]*[)\]]\Z")
"""The signs of `water(3, 4)`."""
_WORD_BEFORE = re.compile(r"([^\W_]+)[\s_-]+\Z")
_WORD_AFTER = re.compile(r"[\s_-]+([^\W_]+)")
_LONGEST_WORD = 40


def _joined(text: str) -> str:
    """The letters of a text without spaces between them; nothing for a text that has others."""
    parts = re.split(r"[\s_-]+", plain_signs(text).lower())
    return "".join(parts) if all(part.isalpha() and len(part) > 1 for part in parts) else ""


def _key(text: str) -> str:
    return " ".join(plain_signs(text).lower().replace("_", " ").split())


def _pattern(wording: str) -> str:
    """A wording as it is found among words. A number is no part of a longer one."""
    text = r"[\s_]+".join(map(re.escape, re.split(r"[\s_]+", plain_signs(wording))))
    before = r"(?<![\w+-])(?<![\d.][.,/])" if wording[:1].isdigit() else r"(?<!\w)"
    after = r"(?!\w)(?!%|[.,/-][0-9])" if wording[-1:].isdigit() else r"(?!\w)"
    if len(wording) == 1 and wording.isalpha():  # no letter of `I'd`
        before, after = rf"(?<!\w['’]){before}", rf"{after}(?!['’]\w)"
    if number_of(wording) is not None:
        before, after = rf"{before}(?<!\w-)", rf"{after}(?!-\w)"
    return f"{before}{text}{after}"


def _outermost(mentions: Iterable[Mention]) -> list[Mention]:
    """The mentions that are not inside longer ones, as `hit` is in `double hit`."""
    kept: list[Mention] = []
    for mention in sorted(mentions, key=lambda mention: (mention.start, -mention.end)):
        is_inside = kept and mention.end <= kept[-1].end and mention[:2] != kept[-1][:2]
        kept += [] if is_inside else [mention]
    return kept
