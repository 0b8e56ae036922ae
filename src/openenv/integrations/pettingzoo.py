"""A game with several seats as a PettingZoo AEC environment. Needs the extra `pettingzoo`.

Example:
    from openenv.integrations.pettingzoo import make

    with make("openspiel", options={"game_name": "connect_four"}) as env:
        env.reset(seed=7)
        for agent in env.agent_iter():
            observation, reward, terminated, truncated, info = env.last()
            is_over = terminated or truncated
            env.step(None if is_over else env.action_space(agent).sample(observation["action_mask"]))
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv

from openenv.auto.discovery import find_environment
from openenv.auto.environment import named_environment
from openenv.core.env_client import EnvClient

_ALL_SEATS = {"agent_player": "all"}


class SeatsEnv(AECEnv):  # type: ignore[misc]
    """Every seat of a game, one after another, over one session. Agents are `seat_0`, `seat_1` and so on.

    An observation is a dictionary: `observation`, the seat's view as float32 [size], and `action_mask`, int8 [actions],
    1 where an action is legal. An illegal action raises EnvironmentFault, and the seat keeps its turn.
    """

    metadata = {"name": "openenv", "render_modes": [], "is_parallelizable": False}  # noqa: RUF012  as PettingZoo has it

    def __init__(
        self,
        client: EnvClient[Any, Any, Any],
        make_action: Callable[..., Any],
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """
        Args:
            client: of an environment that takes `agent_player="all"`; `close` closes it.
            make_action: makes an action from the number `action_id`.
            options: of every reset.

        Raises:
            EnvironmentFault: without several seats.
            ValueError: without numbers in `info_state`.
        """
        super().__init__()
        self._client = client
        self._options = dict(options or {})
        self._make_action = make_action
        first = self._reset(None, {})
        self.possible_agents = [f"seat_{number}" for number in range(first.metadata["num_players"])]
        self._num_actions = int(first.metadata["num_actions"])
        self._size = len(getattr(first, "info_state", ()))
        if not self._size:
            raise ValueError("the observations have no numbers in info_state. Card games: options={'features': True}.")
        self.agents: list[str] = []
        self.render_mode = None

    @cache  # noqa: B019  PettingZoo's test wants the same object in each call
    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """The space of an agent's observations."""
        view = spaces.Box(-np.inf, np.inf, (self._size,), np.float32)
        return spaces.Dict({"observation": view, "action_mask": spaces.Box(0, 1, (self._num_actions,), np.int8)})

    @cache  # noqa: B019
    def action_space(self, agent: str) -> spaces.Space[Any]:
        """The space of an agent's actions: their numbers."""
        return spaces.Discrete(self._num_actions)

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> None:
        """Begin a game. options: `reset` has keywords of the environment's own reset, for this game; others are those
        of wrappers."""
        seen = self._reset(seed, (options or {}).get("reset", {}))
        self.agents = self.possible_agents[:]
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
        self._views = {agent: np.zeros(self._size, np.float32) for agent in self.agents}
        self._masks = {agent: np.zeros(self._num_actions, np.int8) for agent in self.agents}
        self._look(seen)

    def step(self, action: int | None) -> None:
        """Act for the selected agent. Raises EnvironmentFault for an illegal action."""
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        assert action is not None, f"{agent} has an action to choose"
        result = self._client.step(self._make_action(action_id=int(action)))
        self._cumulative_rewards[agent] = 0.0
        self._masks[agent][:] = 0
        for name, reward in zip(self.agents, result.observation.metadata["rewards"], strict=True):
            self.rewards[name] = float(reward)
        self._look(result.observation)
        if result.done:
            self.terminations = dict.fromkeys(self.agents, not result.truncated)
            self.truncations = dict.fromkeys(self.agents, result.truncated)
        self._accumulate_rewards()
        if result.done:
            self._deads_step_first()

    def observe(self, agent: str) -> dict[str, np.ndarray[Any, Any]]:
        """What an agent saw at its last turn, or at the end."""
        return {"observation": self._views[agent], "action_mask": self._masks[agent]}

    def close(self) -> None:
        """Close the client."""
        self._client.close()

    def _reset(self, seed: int | None, options: Mapping[str, Any]) -> Any:
        return self._client.reset(seed=seed, **{**self._options, **options, **_ALL_SEATS}).observation

    def _look(self, seen: Any) -> None:
        """Take over what the seat to act sees."""
        agent = self.possible_agents[seen.metadata["agent_player"]]
        self._views[agent] = np.asarray(seen.info_state, np.float32)
        self._masks[agent][seen.legal_actions] = 1
        self.infos[agent] = {"text": seen.metadata.get("text"), "names": seen.metadata.get("legal_action_names")}
        self.agent_selection = agent


@contextmanager
def make(name: str = "openspiel", options: Mapping[str, Any] | None = None) -> Iterator[SeatsEnv]:
    """Serve a bundled or installed environment while its AEC environment is used.

    options: keywords of every reset, such as `game_name`. Raises LookupError for an unknown name.
    """
    make_action = find_environment(name).action_class
    with named_environment(name).served() as served, served.client() as client:
        yield SeatsEnv(client, make_action, options)
