"""A game of TextArena as an environment: the caller writes for every seat in turn."""

import json
import re
import secrets
from collections.abc import Mapping
from random import Random
from typing import Any
from uuid import uuid4

from openenv.core.env_server.interfaces import Environment, Execution
from openenv.envs.reset_values import refuse_other_keywords, require_whole
from openenv.envs.textarena_env.models import TextArenaAction, TextArenaObservation, TextArenaState
from openenv.envs.textarena_env.server.games import MOST_SEATS, SEATS, check_game, make_game
from openenv.formats.json_text import json_text

_SEED_BITS = 31
_EXAMPLE = re.compile(r"\[[^\[\]\n]{1,40}\]")
_MOST_EXAMPLES = 100
_NUMBERS = re.compile(r"\[\d+(?: \d+)*\]")
_RANGE = re.compile(r"\b(?:between|from) (\d+) (?:and|to) (\d+)\b")


class TextArenaEnvironment(Environment[TextArenaAction, TextArenaObservation, TextArenaState]):
    """Plays one of TextArena's games. Each observation is that of the seat whose turn it is.

    Each session has a process of its own, because the games draw from the process's global random numbers.
    """

    execution: Execution = "process"
    success_return = 1.0

    def __init__(self, game: str = "GuessTheNumber") -> None:
        """game: the default of `reset`. Raises ValueError for an unknown one."""
        self._default = check_game(game)
        self._game: Any = None
        self._state = TextArenaState(game=self._default, num_players=SEATS[self._default])
        self._seed = 0
        self._actions: list[str] = []
        self._examples: dict[int, list[str]] = {}
        """Replies that the messages to each seat have shown."""

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        game: str | None = None,
        num_players: int | None = None,
        agent_player: str = "all",
        **kwargs: Any,
    ) -> TextArenaObservation:
        """Start a game. Equal seeds give equal games under equal replies.

        Args:
            game: TextArena's name, such as Wordle; None for the server's.
            num_players: None for the usual number.
            agent_player: the caller writes for every seat: `all`.

        Raises:
            ValueError: naming the field, for a wrong value; the current game then continues.
        """
        refuse_other_keywords(kwargs, ("game", "num_players"))
        if agent_player != "all":
            raise ValueError(f"agent_player={agent_player!r}: the caller writes for every seat. Leave it out.")
        name = self._default if game is None else check_game(game)
        players = SEATS[name] if num_players is None else num_players
        require_whole("num_players", players, 1, MOST_SEATS)
        seed = secrets.randbits(_SEED_BITS) if seed is None else seed
        self._start(name, players, seed, episode_id or str(uuid4()))
        metadata = {"seed": seed, "num_players": players, "rewards": [0.0] * players}
        return self._observation(self._game.get_observation(), metadata)

    def step(self, action: TextArenaAction, timeout_s: float | None = None, **kwargs: Any) -> TextArenaObservation:
        """Pass a reply of the seat to act to the game.

        Most games end with a loss after two invalid moves of a seat. Raises ValueError for a reply on which the game
        itself fails; the game is then as it was before.
        """
        if self._game is None:
            raise ValueError("step came before reset: there is no game yet. Call reset() first.")
        seat = self._game.state.current_player_id
        try:
            done, _ = self._game.step(action.message)
        except Exception as error:  # border: the games raise anything for text that they do not expect
            self._replay()
            raise ValueError(
                f"message={action.message!r:.100}: the game failed with {type(error).__name__}. Reply in its form."
            ) from error
        self._actions.append(action.message)
        self._state.step_count += 1
        if done:
            return self._last_observation(seat)
        metadata = {"rewards": [0.0] * self._state.num_players}
        return self._observation(self._game.get_observation(), metadata, reward=0.0)

    def save_state(self) -> bytes:
        """The seed and the replies, which fix the game. Raises ValueError before the first reset."""
        if self._game is None:
            raise ValueError("there is no game to save yet. Call reset() first.")
        return json_text([self._seed, self._actions, self._state.model_dump()]).encode()

    def load_state(self, snapshot: bytes) -> None:
        """Replay a saved game."""
        self._seed, self._actions, state = json.loads(snapshot)
        self._state = TextArenaState(**state)
        self._replay()

    @property
    def state(self) -> TextArenaState:
        """The game, its seats, and the number of replies."""
        return self._state

    def _start(self, game: str, players: int, seed: int, episode_id: str) -> None:
        self._game = make_game(game, players, seed)
        self._state = TextArenaState(episode_id=episode_id, game=game, num_players=players)
        self._seed, self._actions, self._examples = seed, [], {}

    def _replay(self) -> None:
        """Make the game anew and repeat its replies."""
        self._game = make_game(self._state.game, self._state.num_players, self._seed)
        self._examples = {}
        self._keep_examples(*self._game.get_observation())
        for message in self._actions:
            done, _ = self._game.step(message)
            if not done:
                self._keep_examples(*self._game.get_observation())

    def _observation(
        self, turn: tuple[int, Any], metadata: Mapping[str, Any], reward: float | None = None
    ) -> TextArenaObservation:
        """What a seat sees. turn: the seat with its new messages."""
        seat, messages = turn
        return TextArenaObservation(
            text="\n".join(map(_text, messages)),
            examples=self._keep_examples(seat, messages),
            reward=reward,
            metadata={"game": self._state.game, "agent_player": seat, **metadata},
        )

    def _keep_examples(self, seat: int, messages: Any) -> list[str]:
        """The replies in the newest message of the game that shows some to the seat."""
        for message in messages:
            found = list(dict.fromkeys(_EXAMPLE.findall("" if _is_reply(message) else _text(message))))
            if len(found) == 1:
                found = _in_stated_range(found[0], _text(message), Random(self._seed))
            if found:
                self._examples[seat] = found[:_MOST_EXAMPLES]
        return self._examples.get(seat, [])

    def _last_observation(self, seat: int) -> TextArenaObservation:
        """What the seat that acted last sees at the end."""
        returns, infos = self._game.close()
        seats = range(self._state.num_players)
        ends = [_reward_and_reason(returns[number], infos.get(number, {}).get("reason", "")) for number in seats]
        rewards, reasons = [reward for reward, _ in ends], [reason for _, reason in ends]
        messages = self._game.state.observations[seat]
        return TextArenaObservation(
            text="\n".join(map(_text, messages)),
            done=True,
            reward=rewards[seat],
            metadata={"game": self._state.game, "agent_player": seat, "rewards": rewards, "reasons": reasons},
        )


def _reward_and_reason(reward: Any, reason: Any) -> tuple[float, str]:
    """The two at the end of a game. Countdown, Cryptarithm and Slitherlink exchange them after invalid moves."""
    return (float(str(reason).rpartition(" ")[2]), reward) if isinstance(reward, str) else (float(reward), str(reason))


def _text(message: Any) -> str:
    """The text of a message: sender, text and kind, in an order that differs between games."""
    return next((part for part in message if isinstance(part, str)), "")


def _is_reply(message: Any) -> bool:
    """Whether a message repeats what a seat has written."""
    return any(getattr(part, "name", "") == "PLAYER_ACTION" for part in message)


def _in_stated_range(example: str, rules: str, rng: Random) -> list[str]:
    """Replies in the form of an example of whole numbers, with each number in the range that the rules state.

    Such as `[1]` to `[20]` for `[5]` and "between 1 and 20"; a random choice where there are many. The numbers of a
    reply differ from each other if those of the example do. The example alone where the rules state no range.
    """
    stated = _RANGE.search(rules)
    if stated is None or not _NUMBERS.fullmatch(example):
        return [example]
    size, values = len(example.split()), range(int(stated[1]), int(stated[2]) + 1)
    if len(values) < size:
        return [example]
    if size == 1:
        draws = [[value] for value in sorted(rng.sample(values, min(len(values), _MOST_EXAMPLES)))]
    else:
        are_different = len(set(example[1:-1].split())) == size
        draws = [
            rng.sample(values, size) if are_different else rng.choices(values, k=size) for _ in range(_MOST_EXAMPLES)
        ]
    return list(dict.fromkeys(f"[{' '.join(map(str, draw))}]" for draw in draws))
