"""One seat of any OpenSpiel game as an environment: the other seats and chance play in between."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from openenv.core.env_server.interfaces import Environment, Execution
from openenv.core.unforeseen import new_uuid, unforeseen_bytes
from openenv.envs.openspiel_env.models import OpenSpielAction, OpenSpielObservation, OpenSpielState
from openenv.envs.openspiel_env.server.draws import draws_of
from openenv.envs.openspiel_env.server.episode import (
    Episode,
    GameChoice,
    advance,
    check_action,
    new_reward,
    play_until_agent,
    set_table,
)
from openenv.envs.openspiel_env.server.games import checked_params, reads_files, unknown
from openenv.envs.openspiel_env.server.trial import refuse_unless_playable
from openenv.envs.openspiel_env.server.views import Sight, look

if TYPE_CHECKING:
    from openenv.core.env_server.vector_environment import VectorEnvironment

_NO_FACTS: Mapping[str, Any] = {}
RESET_FIELDS = ("agent_player", "game_name", "game_params", "opponent_policy", "reveal_history")


class OpenSpielEnvironment(Environment[OpenSpielAction, OpenSpielObservation, OpenSpielState]):
    """Plays any OpenSpiel game from one seat, against policies on the others.

    The arguments say what `reset` plays unless it is told otherwise. The seed decides everything random in an episode
    (chance, opponents, tree search), so equal seeds give equal episodes under equal actions.
    """

    execution: Execution = "inline"  # an instance that plays against tree search says "thread"

    def __init__(
        self,
        game_name: str = "catch",
        agent_player: int = 0,
        opponent_policy: str | list[str] = "random",
        game_params: dict[str, Any] | None = None,
    ) -> None:
        """Raises ValueError where no such game can be played so."""
        self._default = GameChoice(
            game_name=game_name,
            game_params=game_params or {},
            agent_player=agent_player,
            opponent_policy=opponent_policy,
        )
        draws = draws_of(0)
        self._table = set_table(self._default, draws)
        self._unplayed = self._table.begin(draws, seed=0)
        self._episode: Episode | None = None
        self._told_id: str | None = None
        self.execution = _execution(self._default)

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> OpenSpielObservation:
        """The agent's first decision in a new game.

        seed: equal seeds give equal games; without one a fresh seed is drawn and told in the metadata.
        game_name, game_params, agent_player, opponent_policy: for this episode alone, in place of the server's. Naming
        another game than the server's starts from that game's default parameters and seat 0.
        reveal_history: adds to each observation's metadata the `history` of action numbers from which the game can be
        rebuilt; only for turn-based games in which nothing is hidden.
        Raises ValueError for anything else, naming the field, what is allowed, and what came; the old episode goes on.
        """
        reveal_history = bool(kwargs.pop("reveal_history", False))
        choice = self.choose(kwargs)
        if seed is None:
            seed = int.from_bytes(unforeseen_bytes()[:4]) >> 1
        draws = draws_of(seed)
        table = self._table
        is_another = choice is not table.choice and choice != table.choice
        if is_another or table.openings is None or reveal_history:
            table = self._table = set_table(choice, draws, reveal_history=reveal_history)
        episode = self._episode = table.begin(draws, seed, reveal_history=reveal_history)
        self._told_id = episode_id
        self.execution = _execution(choice)
        play_until_agent(episode)
        state = episode.state
        facts = {"seed": seed, "num_players": state.num_players(), "opponent_policy": choice.opponent_policy}
        is_over = episode.phase == "terminal"
        sight = look(table.view, state, is_over=is_over) if table.openings is None else table.openings.look(state)
        return _observe(episode, sight, new_reward(episode) if is_over else None, facts)

    def execution_for(self, verb: str, keywords: Mapping[str, Any]) -> Execution:
        """What takes long, a first trial of game_params or tree search, happens in a thread."""
        if verb != "reset":
            return "thread" if verb == "load" else self.execution  # which plays a whole episode again
        if not keywords:
            return _execution(self._default)
        takes_long = keywords.get("game_params") is not None or "mcts" in str(keywords.get("opponent_policy"))
        return "thread" if takes_long else _execution(self._default)

    def step(self, action: OpenSpielAction, timeout_s: float | None = None, **kwargs: Any) -> OpenSpielObservation:
        """The agent's next decision, or the end, after `action` and the moves of the other seats and of chance.

        Raises ValueError, with the game unchanged, for an action that is not legal, an action meant for another game, a
        game that is over, and a step before the first reset.
        """
        episode = self._episode
        if episode is None:
            raise ValueError("step came before reset: there is no game yet. Call reset() first.")
        legal = episode.legal
        if legal is None or action.action_id not in legal or action.game_name or action.game_params:
            check_action(episode, action)
        advance(episode, action.action_id)
        reward = _gained(episode)
        sight = look(episode.table.view, episode.state, is_over=episode.phase == "terminal")
        return _observe(episode, sight, reward, _NO_FACTS)

    def vectorized(self, num_envs: int) -> "VectorEnvironment":
        """Games that are stepped in one loop, without words and metadata."""
        # numpy belongs to servers that are asked for it
        from openenv.envs.openspiel_env.server.vector import OpenSpielVector

        return OpenSpielVector(self.choose, num_envs)

    def save_state(self) -> bytes:
        """The episode as its seed, its choices and the agent's actions: from them everything else follows, bit for bit.

        Raises ValueError before the first reset.
        """
        episode = self._episode
        if episode is None:
            raise ValueError("there is no game to save yet. Call reset() first.")
        saved = {
            "seed": episode.seed,
            "choice": vars(episode.table.choice),
            "reveal_history": episode.reveal_history,
            "actions": episode.actions,
            "episode_id": self._episode_id(),
        }
        return json.dumps(saved).encode()

    def load_state(self, snapshot: bytes) -> None:
        """Play a saved episode again up to where it was saved: board, chance, opponents, steps and rewards."""
        saved = json.loads(snapshot)
        self.reset(
            seed=saved["seed"],
            episode_id=saved["episode_id"],
            reveal_history=saved["reveal_history"],
            **saved["choice"],
        )
        episode = self._episode
        assert episode is not None
        for action_id in saved["actions"]:
            advance(episode, action_id)
        if saved["actions"]:  # what is gained before the first step is told after it
            _gained(episode)

    @property
    def state(self) -> OpenSpielState:
        """Which game is being played, from which seat, against whom, and how many steps the agent has taken."""
        episode = self._episode or self._unplayed
        return OpenSpielState(
            episode_id=self._episode_id(),
            step_count=len(episode.actions),
            num_players=episode.state.num_players(),
            **vars(episode.table.choice),
        )

    def _episode_id(self) -> str | None:
        """That of the episode, made when somebody asks for it first."""
        if self._episode is not None and not self._told_id:
            self._told_id = new_uuid()
        return self._told_id

    def choose(self, told: dict[str, Any]) -> GameChoice:
        """What a reset with those keywords plays. Raises ValueError for what cannot be played, or not from afar."""
        if not told:
            return self._default
        for name in told:
            if name not in RESET_FIELDS:
                raise unknown("reset argument", name, (*RESET_FIELDS, "seed", "episode_id"))
        given = {name: value for name, value in told.items() if value is not None}
        _check_types(given)
        default = self._default
        if given.get("game_name", default.game_name) != default.game_name:
            default = GameChoice(opponent_policy=default.opponent_policy)
            if not isinstance(default.opponent_policy, str):
                default = GameChoice()
        params = given.get("game_params", default.game_params)
        if params != self._default.game_params and reads_files(params):
            raise ValueError("game_params: a parameter that names a file can only be set where the server is started.")
        choice = GameChoice(**{**vars(default), **given})
        _try_new_params(choice, self._default)
        return choice


def _try_new_params(choice: GameChoice, default: GameChoice) -> None:
    """Raises ValueError where a client's parameters are wrong or end a process: those of the server are trusted."""
    is_trusted = (choice.game_name, choice.game_params) == (default.game_name, default.game_params)
    if choice.game_params and not is_trusted:
        checked_params(choice.game_name, choice.game_params)
        refuse_unless_playable(choice.game_name, choice.game_params)


def _check_types(given: dict[str, Any]) -> None:
    kinds = {"game_name": str, "game_params": dict, "agent_player": int, "opponent_policy": str | list}
    for name, value in given.items():
        if not isinstance(value, kinds[name]) or isinstance(value, bool):
            wanted = {"game_params": "an object", "agent_player": "an int", "opponent_policy": "a string or a list"}
            raise ValueError(f"{name}={value!r}: {wanted.get(name, 'a string')} is wanted.")


def _execution(choice: GameChoice) -> Execution:
    """Tree search takes milliseconds to seconds for each move; everything else takes microseconds."""
    return "thread" if "mcts" in choice.opponent_policy else "inline"


def _gained(episode: Episode) -> float:
    """What the agent has gained since it was last told, after a step."""
    return 0.0 if episode.table.pays_at_the_end and episode.phase != "terminal" else new_reward(episode)


def _observe(episode: Episode, sight: Sight, reward: float | None, facts: Mapping[str, Any]) -> OpenSpielObservation:
    table, phase = episode.table, episode.phase
    legal, names, words, numbers = sight
    episode.legal = tuple(legal)
    metadata = {**table.facts, "text": words, "legal_action_names": names, **facts}
    if episode.reveal_history:
        metadata["history"] = episode.state.history()
    seen = {
        "done": phase == "terminal",
        "reward": reward,
        "metadata": metadata,
        "info_state": numbers,
        "legal_actions": legal,
        "game_phase": phase,
        "current_player_id": episode.player,
        "opponent_last_action": episode.opponent_last_action if table.view.shows_moves else None,
    }
    return OpenSpielObservation.trusted(seen)
