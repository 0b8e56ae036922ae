"""What the agent may see, and that it sees nothing else."""

import json

import pyspiel
import pytest

from openenv.envs.openspiel_env.server import views
from openenv.envs.openspiel_env.server.environment import OpenSpielEnvironment
from openenv.envs.openspiel_env.server.games import load
from tests.envs.openspiel_env.playing import play, random_episode


@pytest.mark.parametrize(
    ("game", "kind", "length"),
    [
        ("kuhn_poker", "information_state_tensor", 11),
        ("blackjack", "observation_tensor", 189),
        ("tic_tac_toe", "observation_tensor", 27),
        ("python_dynamic_routing", "observation_tensor", 66),
        ("morpion_solitaire", "string", 0),
        ("tarok", "string", 0),
    ],
)
def test_metadata_says_what_the_numbers_are(game: str, kind: str, length: int) -> None:
    observation = OpenSpielEnvironment(game).reset(seed=1)

    assert observation.metadata["info_state_kind"] == kind
    assert len(observation.info_state) == length
    assert observation.metadata["text"]


def test_a_huge_view_is_left_out_and_its_words_remain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "MAX_TENSOR_VALUES", 100)

    observation = OpenSpielEnvironment("go").reset(seed=1)

    assert (observation.info_state, observation.metadata["info_state_kind"]) == ([], "string")


def _everything_seen(observations: list[object]) -> str:
    return json.dumps([observation.model_dump(exclude={"done", "reward"}) for observation in observations])  # type: ignore[attr-defined]


def test_in_kuhn_poker_nothing_sent_depends_on_the_opponents_card() -> None:
    """The same own card and the same public moves, but the opponent holds each of the other two cards in turn."""
    seen: dict[str, set[str]] = {}
    opponents_cards: dict[str, set[int]] = {}
    for seed in range(60):
        env = OpenSpielEnvironment("kuhn_poker", opponent_policy="last")
        observations = [env.reset(seed=seed)]
        own, other = env._episode.state.history()[:2]  # type: ignore[union-attr]
        observations.append(play(env, observations[0], 0))
        for observation in observations:
            observation.metadata.pop("seed", None)
        seen.setdefault(str(own), set()).add(_everything_seen(observations))
        opponents_cards.setdefault(str(own), set()).add(other)

    assert {len(cards) for cards in opponents_cards.values()} == {2}
    assert {len(views_seen) for views_seen in seen.values()} == {1}


def test_in_blackjack_nothing_sent_depends_on_the_dealers_hidden_card() -> None:
    game = load("blackjack", {})
    view = views.view_of(game, 0)

    def after(hidden: int) -> tuple[list[float], str]:
        state = game.new_initial_state()
        for card in (12, 28, hidden, 32):
            state.apply_action(card)
        return view.numbers(state, 0), view.words(state, 0)

    assert after(1) == after(50)
    assert "??" in after(1)[1]


@pytest.mark.parametrize("game", ["phantom_ttt", "dark_hex", "kriegspiel", "battleship", "hearts"])
def test_moves_that_the_rules_hide_are_not_told(game: str) -> None:
    observations = random_episode(OpenSpielEnvironment(game), 3)

    assert {observation.opponent_last_action for observation in observations} == {None}


def test_moves_that_are_announced_are_told() -> None:
    env = OpenSpielEnvironment("kuhn_poker", agent_player=1, opponent_policy="last")

    assert env.reset(seed=1).opponent_last_action == 1


def test_the_word_to_guess_is_not_told() -> None:
    env = OpenSpielEnvironment("python_hangman")
    observation = env.reset(seed=1)
    state = env._episode.state  # type: ignore[union-attr]
    word = str(state).split()[1]

    assert word not in _everything_seen([observation])
    assert observation.metadata["text"].startswith("Letters Revealed: ____")
    assert state.information_state_string(0) not in observation.metadata["text"].split()


@pytest.mark.parametrize("wrapped", ["matrix_pd", "goofspiel"])
def test_a_simultaneous_game_played_in_turns_does_not_tell_the_second_what_the_first_did(wrapped: str) -> None:
    seen = set()
    for policy in ("first", "last"):
        env = OpenSpielEnvironment(
            "turn_based_simultaneous_game",
            agent_player=1,
            opponent_policy=policy,
            game_params={"game": {"name": wrapped}},
        )
        observation = env.reset(seed=1)
        observation.metadata.pop("opponent_policy")
        seen.add(_everything_seen([observation]))

    assert len(seen) == 1


def test_names_of_actions_are_openspiels_own() -> None:
    observation = OpenSpielEnvironment("connect_four").reset(seed=1)
    state = pyspiel.load_game("connect_four").new_initial_state()

    assert observation.metadata["legal_action_names"] == [state.action_to_string(0, a) for a in state.legal_actions()]
