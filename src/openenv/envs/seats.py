"""Tables: a game whose seats are played by different sessions, each with its own client.

A session takes a seat of a table by name in `reset`, which returns when all seats are taken and it is the seat's turn.
`step` returns at the seat's next turn, or at the end. Each seat is thus played by the loop of any other environment.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol
from uuid import uuid4

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.runner.env_spec import resolve_env_spec
from openenv.core.env_server.types import State
from openenv.hosting.serving.settings import keywords_of, option

MAX_NAME = 100


class AllSeats(Protocol):
    """An environment in which one caller acts for every seat: `reset(agent_player="all")`.

    The metadata of its observations has `agent_player`, the seat to act, and `rewards`, the reward of each seat since
    the observation before. That of the first has `num_players`.
    """

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Any:
        """What the first seat sees."""
        ...

    def step(self, action: Any) -> Any:
        """What the next seat sees."""
        ...

    def observation_of(self, seat: int) -> Any:
        """What a seat sees now."""
        ...


class Table:
    """One game, and its seats that are taken. All of its methods run in one event loop."""

    def __init__(self, name: str, environment: AllSeats, game: Mapping[str, Any], turn_timeout_s: float) -> None:
        """game: the reset keywords of the environment. Raises what the environment raises for wrong ones."""
        self.name = name
        self._environment = environment
        self._game = game
        self._turn_timeout_s = turn_timeout_s
        self._changed = asyncio.Condition()
        self._observation = environment.reset(**{**game, "agent_player": "all"})
        self._num_seats = int(self._observation.metadata["num_players"])
        self._rewards: list[float] = list(self._observation.metadata["rewards"])
        """The reward of each seat since its last observation."""
        self._taken: set[int] = set()
        self._ended = ""
        """Why the game has ended before its end; empty if it has not."""

    @property
    def is_over(self) -> bool:
        """Whether another game may be played under its name."""
        return bool(self._ended or self._observation.done)

    @property
    def is_left(self) -> bool:
        """Whether all seats are free."""
        return not self._taken

    @property
    def _is_full(self) -> bool:
        return len(self._taken) == self._num_seats

    @property
    def _seat_to_act(self) -> int:
        return int(self._observation.metadata["agent_player"])

    def take(self, seat: int, game: Mapping[str, Any]) -> None:
        """Take a seat. Raises ValueError, naming the field, for a wrong or taken seat, and for another game."""
        different = [key for key, value in game.items() if value is not None and self._game.get(key) != value]
        if different:
            opened = ", ".join(f"{key}={value!r}" for key, value in self._game.items() if value is not None)
            wrong = f"{different[0]}={game[different[0]]!r}"
            raise ValueError(f"{wrong}: table {self.name!r} was opened with {opened or 'no keywords'}. Leave it out.")
        if not 0 <= seat < self._num_seats:
            raise ValueError(f"seat={seat}: this game has the seats 0 to {self._num_seats - 1}.")
        if seat in self._taken:
            raise ValueError(f"seat={seat}: it is taken at table {self.name!r}. Choose another seat or table.")
        self._taken.add(seat)

    async def act(self, seat: int, action: Any) -> None:
        """Apply an action of a seat. Raises ValueError out of turn, and for an illegal action."""
        self._require_going_on()
        if not self._observation.done and self._seat_to_act != seat:
            raise ValueError(f"seat={seat}: it is the turn of seat {self._seat_to_act} at table {self.name!r}.")
        self._observation = self._environment.step(action)
        for number, reward in enumerate(self._observation.metadata["rewards"]):
            self._rewards[number] += reward
        await self._notify()

    async def turn_of(self, seat: int, *, is_first: bool) -> Any:
        """What a seat sees at its next turn, or at the end.

        Raises ValueError if the game ends before: a seat is left, or is not taken or played in time.
        """
        try:
            async with self._changed, asyncio.timeout(self._turn_timeout_s):
                self._changed.notify_all()
                await self._changed.wait_for(lambda: self.is_over or (self._is_full and self._seat_to_act == seat))
        except TimeoutError:
            waited_for = f"seat {self._seat_to_act} acted" if self._is_full else "all seats were taken"
            self._ended = f"{self._turn_timeout_s:g} s passed before {waited_for}"
            await self._notify()
        self._require_going_on()
        is_over = self._observation.done
        seen = self._environment.observation_of(seat) if is_over else self._observation
        reward, self._rewards[seat] = self._rewards[seat], 0.0
        return seen.model_copy(update={"reward": None if is_first and not is_over else reward})

    async def leave(self, seat: int) -> None:
        """Leave a seat. A game that is going on ends for the others."""
        if not self.is_over:
            self._ended = f"seat {seat} has left table {self.name!r}"
        self._taken.discard(seat)
        await self._notify()

    def _require_going_on(self) -> None:
        if self._ended:
            raise ValueError(f"the game is over: {self._ended}. Call reset() for another one.")

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


class Tables:
    """The tables of one server. Its worker processes have tables of their own: serve them with one worker."""

    def __init__(self, make_environment: Callable[[], AllSeats], turn_timeout_s: float = 60.0) -> None:
        """turn_timeout_s: a game ends for all seats if one is not taken, or not played, for so long."""
        self._make_environment = make_environment
        self._turn_timeout_s = turn_timeout_s
        self._tables: dict[str, Table] = {}

    def take(self, name: str, seat: int, game: Mapping[str, Any]) -> Table:
        """Take a seat of the game that is made up at a table. The first that comes chooses the game."""
        table = self._tables.get(name)
        if table is None or table.is_over:
            table = Table(name, self._make_environment(), game, self._turn_timeout_s)
            table.take(seat, game)
            self._tables[name] = table
        else:
            table.take(seat, game)
        return table

    async def leave(self, table: Table, seat: int) -> None:
        """Leave a seat, and forget a table whose seats are all free."""
        await table.leave(seat)
        if table.is_left and self._tables.get(table.name) is table:
            del self._tables[table.name]


class SeatEnvironment(Environment[Any, Any, Any]):
    """One seat of a table. `reset` takes `table`, a name that the seats agree on, `seat`, and the game's keywords."""

    def __init__(self, tables: Tables, make_state: Callable[..., State] = State) -> None:
        """make_state: makes the state from its fields `episode_id` and `step_count`."""
        self._tables = tables
        self._make_state = make_state
        self._table: Table | None = None
        self._seat = 0
        self._episode_id: str | None = None
        self._step_count = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    async def reset_async(
        self, seed: int | None = None, episode_id: str | None = None, table: str = "", seat: int = 0, **kwargs: Any
    ) -> Any:
        """Take a seat, and return at its first turn. Raises ValueError, naming the field, if it cannot be taken.

        seed, and all other keywords, are those of the environment's reset. Seats that come later may leave them out.
        """
        if not isinstance(table, str) or not 0 < len(table) <= MAX_NAME:
            raise ValueError(f"table={table!r:.120}: name a table with 1 to {MAX_NAME} characters.")
        if not isinstance(seat, int) or isinstance(seat, bool):
            raise ValueError(f"seat={seat!r}: expected the number of a seat, from 0.")
        self._loop = asyncio.get_running_loop()
        if self._table is not None:
            await self._tables.leave(self._table, self._seat)
            self._table = None
        self._table = self._tables.take(table, seat, {"seed": seed, **kwargs})
        self._seat, self._step_count, self._episode_id = seat, 0, episode_id or str(uuid4())
        return await self._table.turn_of(seat, is_first=True)

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Any:
        """Raises NotImplementedError: a seat waits for the others."""
        raise NotImplementedError("a seat waits for the others: await reset_async()")

    def step(self, action: Any, timeout_s: float | None = None, **kwargs: Any) -> Any:
        """Raises NotImplementedError: a seat waits for the others."""
        raise NotImplementedError("a seat waits for the others: await step_async()")

    async def step_async(self, action: Any, timeout_s: float | None = None, **kwargs: Any) -> Any:
        """Act, and return at the seat's next turn, or at the end."""
        if self._table is None:
            raise ValueError("step came before reset: take a seat of a table first.")
        await self._table.act(self._seat, action)
        self._step_count += 1
        return await self._table.turn_of(self._seat, is_first=False)

    @property
    def state(self) -> State:
        """The episode's id, and how often this seat has acted."""
        return self._make_state(episode_id=self._episode_id, step_count=self._step_count)

    def close(self) -> None:
        """Leave the table."""
        table, loop = self._table, self._loop
        if table is not None and loop is not None and not loop.is_closed():
            asyncio.run_coroutine_threadsafe(self._tables.leave(table, self._seat), loop)
            self._table = None


@dataclass(frozen=True, kw_only=True)
class TableSettings:
    """Whether sessions play each other."""

    tables: float | None = option(
        None,
        "Let different sessions play the seats of a game: reset(table=NAME, seat=NUMBER). A game ends when a seat is "
        "not taken or played for so many seconds",
        unset="a session plays one seat against opponents",
        metavar="SECONDS",
    )


def make_tables(environment: type[Environment[Any, Any, Any]], settings: TableSettings) -> Callable[[], Any]:
    """Makes environments of the other settings, or seats of their tables where `tables` is set."""
    keywords = keywords_of(settings)
    turn_timeout_s = keywords.pop("tables")
    make: Callable[[], Any] = partial(environment, **keywords)
    if turn_timeout_s is None:
        return make
    make().close()  # a wrong setting fails here, and not when a seat is taken
    return partial(SeatEnvironment, Tables(make, turn_timeout_s), resolve_env_spec(environment).state_cls)
