"""Text interface of the trading environment: what is held and how prices have moved, in whole numbers."""

import math
from collections.abc import Sequence
from random import Random

from openenv.core.env_server.types import Action, Observation
from openenv.envs.trading_env.models import TradingAction, TradingObservation
from openenv.text.action_forms import ChoiceForm, UnreadableReply
from openenv.text.derived import DerivedText
from openenv.text.sentences import reply_with_one_of

_WEEK = 5
_LARGEST = 9
_HELD_STEP = 10
_ROUNDING = 1e-6


class TradingText(DerivedText):
    """Describes each symbol by its share of the equity and by its moves. Replies are ready-made orders, or weights."""

    history = "latest"

    def instructions(self, observation: Observation) -> str:
        """The rules, and how to write a reply."""
        symbols = list(_seen(observation).prices)
        example = f'{{"weights": {{"{symbols[0]}": 0.5}}}}'
        return (
            "Manage a portfolio. After each close you give an order, which is filled at the next day's close. Trading "
            "costs money. Make the equity grow. A line has a symbol's share of the equity in percent, and its moves of "
            f"the last {_WEEK} days (week) and the last {_window(observation)} days (trend), in standard deviations. "
            f"{reply_with_one_of(self.replies(observation))} hold trades nothing, a symbol puts all money in it. "
            f"Or reply with the share of each symbol as JSON; the rest is cash: {example}"
        )

    def describe(self, observation: Observation) -> str:
        """A line for each symbol, in order."""
        seen = _seen(observation)
        return "\n".join(
            f"{symbol}: held {_HELD_STEP * round(100 * seen.weights[symbol] / _HELD_STEP)}, "
            f"week {_rounded(move(returns, _WEEK))}, trend {_rounded(move(returns, len(returns)))}"
            for symbol, returns in seen.returns.items()
        )

    def parse(self, reply: str, observation: Observation) -> Action | None:
        """A ready-made order, or the weights in a JSON object; None if they cannot be had."""
        try:
            return self._read(reply, observation)
        except UnreadableReply:
            return None

    def problem(self, reply: str, observation: Observation) -> str:
        """What is wrong with a reply, and what may be written instead."""
        try:
            self._read(reply, observation)
        except UnreadableReply as error:
            return str(error)
        return ""

    def random_reply(self, observation: Observation, rng: Random) -> tuple[str, Action]:
        """Each ready-made order with the same probability."""
        return rng.choice(list(self.replies(observation).items()))

    def wording(self, action: Action, observation: Observation) -> str | None:
        """The name of a ready-made order, or the weights as JSON."""
        return super().wording(action, observation) or self._form.wording(action)

    def _read(self, reply: str, observation: Observation) -> Action:
        if "{" not in reply:
            return ChoiceForm(self.replies(observation)).parse(reply)
        action = self._form.parse(reply)
        assert isinstance(action, TradingAction)
        weights, symbols = action.weights or {}, _seen(observation).prices
        unknown = [symbol for symbol in weights if symbol not in symbols]
        is_possible = all(0 <= weight < math.inf for weight in weights.values())
        if unknown or not is_possible or sum(weights.values()) > 1 + _ROUNDING:
            raise UnreadableReply(
                f"{reply!r:.200}: the weights of {', '.join(symbols)} are numbers from 0, together at most 1."
            )
        return action


def move(returns: Sequence[float], days: int) -> float:
    """The move of the last days in standard deviations: those of one day, times the root of the days. 0: no variance.

    returns: daily log returns, oldest first.
    """
    count = len(returns)
    mean = sum(returns) / count
    deviation = math.sqrt(sum((one - mean) ** 2 for one in returns) / count)
    last = returns[-days:]
    return sum(last) / (deviation * math.sqrt(len(last))) if deviation > 0 else 0.0


def _rounded(number: float) -> int:
    return max(-_LARGEST, min(_LARGEST, round(number)))


def _seen(observation: Observation) -> TradingObservation:
    assert isinstance(observation, TradingObservation)
    return observation


def _window(observation: Observation) -> int:
    return len(next(iter(_seen(observation).returns.values())))
