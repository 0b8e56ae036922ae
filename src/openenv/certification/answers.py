"""Proofs about answers: good play reaches the best return, and what is no answer to the task earns nothing."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from openenv.certification.subject import Proof, Score, Subject, shown_action
from openenv.evaluation.quality.target import CheckResult, failed, passed, skipped, warned
from openenv.policies.base import EndEpisode, Policy
from openenv.schema.legal_actions import LEGAL_FIELDS, NAME_FIELDS
from openenv.schema.message_schema import message_schema
from openenv.schema.samples import resolved
from openenv.text.content import text_of
from openenv.text.interface import TextInterface

_EPISODES = 100
_FEW = 20
"""Episodes in which one of many policies shows what it may earn; the best one then plays more."""
_MOST_ACTIONS = 24
_MOST_PLACES = 60
_LONGEST = 200
"""Characters of a value that is taken for an answer."""
_SAME_ANSWERS = ("yes", "no", "0", "1")
"""Replies that may be actions, and are given every time then."""
_NEVER_ANSWERS = frozenset({"done", "reward", "seed", "success_return", *LEGAL_FIELDS, *NAME_FIELDS})


class RepliesWith(Policy):
    """Replies to each observation with a text, as a language model would."""

    def __init__(self, name: str, text: TextInterface[Any, Any], reply: Callable[[Any], str | None]) -> None:
        """reply: an observation -> the reply; None: there is none."""
        self.name, self._text, self._reply = name, text, reply

    def select_action(self, observation: Any) -> Any:
        """The action that the reply names, or None."""
        reply = self._reply(observation)
        return None if reply is None else self._text.parse(reply, observation)


class EmptyTexts(Policy):
    """Acts as random play, with every text left empty: what an agent sends whose answer was lost."""

    name = "empty texts"

    def __init__(self, subject: Subject) -> None:
        self._random = subject.random_policy()
        schema = message_schema(subject.served.client_class._message_classes[0])
        parts = {name: resolved(schema, part) for name, part in schema.get("properties", {}).items()}
        free = {name for name, part in parts.items() if part.get("type") == "string"}
        self.texts = {name: "" for name in free if not parts[name].keys() & {"enum", "const", "pattern"}}
        """The fields that take any text."""

    def select_action(self, observation: Any) -> Any:
        """An action of random play without its texts."""
        return self._random.select_action(observation).model_copy(update=self.texts)


def good_play(subject: Subject, random: Score) -> tuple[Proof, Score | None]:
    """Good play that the manifest declares reaches the best return, or earns more than random play.

    Returns the proof, and the score of good play if there is one.
    """
    player, best = subject.known.player(), subject.known.best_return
    if player is None:
        reason = "declare it in openenv.yaml: measured: {NAME: {heuristic: FILE.py:FUNCTION, best_return: 1.0}}"
        return Proof(name="good play", result=skipped(f"the environment comes with no good player: {reason}")), None
    (score,) = subject.scores([player], _EPISODES)
    figures = {"good play": score.figures, "random play": random.figures, "best return": best}
    result = _judged(score, random, best)
    return Proof(name="good play", result=result, figures=figures), score


def _judged(score: Score, random: Score, best: float | None) -> CheckResult:
    seen = f"{score}; random play {random}"
    if score.summary.num_invalid:
        reason = next(iter(score.summary.invalid_reasons))
        return failed(f"{score.summary.num_invalid} episodes of good play are invalid: {reason}", "correct the player")
    if best is None:
        if score.is_above(random):
            return passed(seen)
        if score.summary.mean_return > random.summary.mean_return:
            return warned(f"good play is hardly better than random play: {seen}", "give more --minutes")
        return failed(f"good play is no better than random play: {seen}", "look at the rules, or at the player")
    seen += f"; the best return is {best:g}"
    low, high = score.summary.return_interval
    tolerance = 1e-6 * max(1.0, abs(best))
    if low > best + tolerance:
        return failed(f"good play earns more than the best return: {seen}", "correct best_return, or the rules")
    if high >= best - tolerance:
        return passed(seen)
    share = (score.summary.mean_return - random.summary.mean_return) / (best - random.summary.mean_return)
    if not share >= 0.5:
        return failed(f"good play does not reach the best return: {seen}", "look at the rules, or at the player")
    return warned(f"good play reaches {share:.0%} of the best return: {seen}", "declare a better player")


def no_answer(subject: Subject, without: Sequence[Score]) -> Proof:
    """Replies that are no answer earn no more than play that knows nothing. without: the scores of that."""
    policies: list[Policy] = [_constant(subject, "I do not know.")]
    empty = EmptyTexts(subject)
    if empty.texts:
        policies.append(empty)
    return _earns_nothing(
        "no answer", subject, policies, without, "an empty or an unrelated reply must not score: compare whole answers"
    )


def copied_prompt(subject: Subject, without: Sequence[Score]) -> Proof:
    """A reply that repeats the prompt earns no more than play that knows nothing. without: the scores of that."""
    text = subject.served.text

    def both(seen: Any) -> str:
        return f"{text.instructions(seen)}\n{text_of(text.describe(seen))}"

    policies = [
        RepliesWith("the observation", text, lambda seen: text_of(text.describe(seen))),
        RepliesWith("the whole prompt", text, both),
        RepliesWith("all legal replies", text, lambda seen: " ".join(text.replies(seen)) or None),
    ]
    remedy = "a reply that contains the right answer among others must not score: compare whole answers"
    return _earns_nothing("copied prompt", subject, policies, without, remedy)


def _constant(subject: Subject, reply: str) -> RepliesWith:
    return RepliesWith(repr(reply), subject.served.text, lambda _: reply)


def _earns_nothing(
    name: str, subject: Subject, policies: Sequence[Policy], without: Sequence[Score], remedy: str
) -> Proof:
    scores = subject.scores(policies, _FEW)
    result = passed(f"{', '.join(one.name for one in policies)}: none earns more than one action every time")
    for policy, score in zip(policies, scores, strict=True):
        if all(score.is_above(one) for one in without):
            seen = f"{policy.name} as the reply: {score}; play that knows nothing: {', '.join(map(str, without))}"
            result = failed(seen, remedy)
            break
    figures = {policy.name: score.figures for policy, score in zip(policies, scores, strict=True)}
    return Proof(name=name, result=result, figures=figures)


class Repeats(Policy):
    """Chooses one action, whatever it sees."""

    def __init__(self, action: Any) -> None:
        self.name, self._action = f"{shown_action(action)} every time", action

    def select_action(self, observation: Any) -> Any:
        """The action."""
        return self._action


def repeated_answer(subject: Subject, random: Score, good: Score | None) -> tuple[Proof, Score]:
    """No action wins when it is chosen every time.

    Tried are actions of random play, and those of good play. The best of them plays further episodes. It must earn less
    than good play, or without one win less than nine of ten episodes, unless random play does as well. Returns the
    proof, and the score of the best action.
    """
    policies = [Repeats(action) for action in _actions(subject)[: subject.most_policies(_MOST_ACTIONS)]]
    first = subject.scores(policies, _FEW)
    top = max(range(len(policies)), key=lambda place: _value(first[place]))
    (score,) = subject.scores([policies[top]], _EPISODES, first=_FEW)
    figures = {"action": policies[top].name, "score": score.figures, "actions": len(policies)}
    seen = f"the best of {len(policies)} actions, {policies[top].name}: {score}; random play {random}"
    best = _best_return(subject, good)
    if best is not None:
        wins = score.reaches(best, random)
    else:
        wins = score.summary.declares_success and score.summary.win_interval[0] > 0.9 and score.is_above(random)
    if wins:
        remedy = "the task must need the observation: let the right answer differ from episode to episode"
        return Proof(name="repeated answer", result=failed(seen, remedy), figures=figures), score
    return Proof(name="repeated answer", result=passed(seen), figures=figures), score


def _best_return(subject: Subject, good: Score | None) -> float | None:
    """The best mean return that is known."""
    if subject.known.best_return is not None or good is None:
        return subject.known.best_return
    return good.summary.mean_return


def _value(score: Score) -> float:
    value = score.summary.win_rate if score.summary.declares_success else score.summary.mean_return
    return -math.inf if math.isnan(value) else value


def _actions(subject: Subject) -> list[Any]:
    """Actions for the first observations of some episodes: of good play, and all that are counted, else drawn ones."""
    text, good, found = subject.served.text, subject.known.player(), dict[str, Any]()
    with subject.served.client() as client:
        for seed, observation in subject.beginnings(client, _MOST_ACTIONS):
            chosen = [] if good is None else good.select_actions([observation])
            tried = [action for action in chosen if not isinstance(action, EndEpisode)]  # it may have failed
            counted = text.replies(observation).values()
            for action in (*tried, *(counted or [subject.random_policy(seed).select_action(observation)])):
                found.setdefault(repr(action), action)
        named = (text.parse(reply, observation) for reply in _SAME_ANSWERS)
        found.update({repr(action): action for action in named if action is not None})
    return list(found.values())


def hidden_answer(subject: Subject, random: Score, good: Score | None) -> Proof:
    """No value of an observation that the model is not shown wins as the reply."""
    text = subject.served.text
    with subject.served.client() as client:
        _, first = next(subject.beginnings(client, 1))
    places = [place for place, value in _values(first) if not _is_shown(text, first, value)]
    places = places[: subject.most_policies(_MOST_PLACES)]
    if not places:
        return Proof(name="hidden answer", result=passed("observations have no value that the prompt does not show"))
    policies = [RepliesWith(place, text, partial(_value_at, place)) for place in places]
    scores = subject.scores(policies, _FEW)
    best = _best_return(subject, good)
    for policy, score in zip(policies, scores, strict=True):
        wins = score.summary.declares_success and score.summary.win_interval[0] > 0.8
        if score.is_above(random) and (wins or (best is not None and score.reaches(best, random))):
            seen = f"the value of {policy.name}, which no prompt shows, as the reply: {score}; random play {random}"
            remedy = "leave the answer out of observations: agents and tools read them whole"
            return Proof(name="hidden answer", result=failed(seen, remedy), figures={policy.name: score.figures})
    return Proof(
        name="hidden answer",
        result=passed(f"{len(places)} values that prompts do not show: none wins as the reply"),
        figures={"values": len(places)},
    )


def _value_at(place: str, observation: Any) -> str | None:
    return dict(_values(observation)).get(place)


def _is_shown(text: TextInterface[Any, Any], observation: Any, value: str) -> bool:
    return value in f"{text.instructions(observation)}\n{text_of(text.describe(observation))}"


def _values(observation: Any) -> Iterator[tuple[str, str]]:
    """The texts and numbers of an observation, as texts, by their place in it. Its metadata is part of it."""
    yield from _within("observation", observation.model_dump(mode="json"))


def _within(place: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            if key not in _NEVER_ANSWERS:
                yield from _within(f"{place}.{key}", part)
    elif isinstance(value, list):
        for number, part in enumerate(value[:_MOST_PLACES]):
            yield from _within(f"{place}[{number}]", part)
    elif isinstance(value, str | int | float) and not isinstance(value, bool) and 0 < len(str(value)) <= _LONGEST:
        yield place, str(value)
