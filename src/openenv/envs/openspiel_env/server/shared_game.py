"""One game with all of its seats in one session: each observation is that of the seat whose turn it is."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from openenv.envs.openspiel_env.models import OpenSpielAction, OpenSpielObservation
from openenv.envs.openspiel_env.server.episode import CHANCE, NO_CHOICE, SIMULTANEOUS, check_legal, sample_chance
from openenv.envs.openspiel_env.server.games import load_game_for_episode, success_return_of
from openenv.envs.openspiel_env.server.rng import make_rng
from openenv.envs.openspiel_env.server.seat_view import make_seat_view, observe


class SharedChoice(NamedTuple):
    """Which game is played."""

    game_name: str
    game_params: dict[str, Any]


class SharedGame:
    """An episode in which the caller acts for every seat, one after another.

    Where all seats move at once, each is asked in turn, and none sees what the others have chosen. The actions of all
    seats and the seed fix the episode.
    """

    def __init__(self, choice: SharedChoice, seed: int) -> None:
        """Play up to the first decision. Raises ValueError, naming the field, for a game that cannot be played."""
        self.choice, self.seed = choice, seed
        self._rng = make_rng(seed)
        self._game = load_game_for_episode(*choice, self._rng)
        self._views = [make_seat_view(self._game, seat) for seat in range(self.num_players)]
        self.success_return = success_return_of(self._game)
        self._state = self._game.new_initial_state()
        self._chosen: dict[int, int] = {}
        """Actions of a simultaneous move that some seats have still to join."""
        self._returned = [0.0] * self.num_players
        """The part of each seat's return that earlier steps have reported."""
        self.actions: list[int] = []
        """The actions so far, in order."""
        self.seat = 0
        """The seat to act; at the end the one that acted last."""
        self._play_until_decision()

    @property
    def num_players(self) -> int:
        """The number of seats."""
        return int(self._game.num_players())

    def act(self, action: OpenSpielAction) -> OpenSpielObservation:
        """Apply an action of the seat whose turn it is; return what the next seat sees.

        Raises ValueError, listing the legal actions, for any other action.
        """
        check_legal(action, self._state, self.seat, self.choice.game_name, self.choice.game_params)
        actor = self.seat
        self.apply(action.action_id)
        rewards = self._rewards()
        return self.observation(self.seat, rewards[actor], {"rewards": rewards})

    def apply(self, action_id: int) -> None:
        """Apply a legal action without observing."""
        self.actions.append(action_id)
        if self._state.current_player() == SIMULTANEOUS:
            self._chosen[self.seat] = action_id
        else:
            self._state.apply_action(action_id)
        self._play_until_decision()

    def replay(self, actions: Sequence[int]) -> None:
        """Apply the actions of a saved episode. The rewards until then count as reported."""
        for action_id in actions:
            self.apply(action_id)
        self._rewards()

    def observation(
        self, seat: int, reward: float | None = None, metadata: Mapping[str, Any] | None = None
    ) -> OpenSpielObservation:
        """What a seat sees. Only the seat to act has legal actions."""
        state, view, is_over = self._state, self._views[seat], self._state.is_terminal()
        legal, names, text, tensor = observe(view, state, is_over=is_over or seat != self.seat)
        fields = {"game_name": self.choice.game_name, "agent_player": seat, "info_state_kind": view.kind}
        if self.choice.game_params:
            fields["game_params"] = self.choice.game_params
        return OpenSpielObservation(
            done=is_over,
            reward=reward,
            metadata={**fields, "text": text, "legal_action_names": names, **(metadata or {})},
            info_state=tensor,
            legal_actions=legal,
            game_phase="terminal" if is_over else "playing" if self.actions else "initial",
            current_player_id=int(state.current_player()) if is_over else self.seat,
        )

    def first_observation(self) -> OpenSpielObservation:
        """What the first seat sees."""
        metadata = {
            "seed": self.seed,
            "num_players": self.num_players,
            "num_actions": int(self._game.num_distinct_actions()),
            "rewards": self._rewards(),
        }
        return self.observation(self.seat, None, metadata)

    def _rewards(self) -> list[float]:
        """The reward of each seat since the last call."""
        returns = list(self._state.returns())
        rewards = [round(after - before, 9) for after, before in zip(returns, self._returned, strict=True)]
        self._returned = returns
        return rewards

    def _play_until_decision(self) -> None:
        """Apply chance and complete joint moves until a seat has a choice, or the game is over."""
        state = self._state
        while (player := state.current_player()) in (CHANCE, SIMULTANEOUS):
            if player == CHANCE:
                state.apply_action(sample_chance(state, self._rng))
                continue
            waiting = [seat for seat in range(self.num_players) if self._must_choose(seat)]
            if waiting:
                self.seat = waiting[0]
                return
            state.apply_actions([self._chosen.get(seat, NO_CHOICE) for seat in range(self.num_players)])
            self._chosen.clear()
        if not state.is_terminal():
            self.seat = int(player)

    def _must_choose(self, seat: int) -> bool:
        return seat not in self._chosen and bool(self._state.legal_actions(seat))
