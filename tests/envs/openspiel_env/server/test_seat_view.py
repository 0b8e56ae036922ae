"""What the agent observes, that it observes nothing else, and the cache of first observations."""

import json

import pyspiel
import pytest

from openenv.envs.openspiel_env.models import OpenSpielObservation
from openenv.envs.openspiel_env.server import seat_view
from openenv.envs.openspiel_env.server.environment import OpenSpielEnvironment
from openenv.envs.openspiel_env.server.games import load_game
from openenv.envs.openspiel_env.server.prepared_game import GameChoice
from openenv.envs.openspiel_env.server.seat_view import OpeningCache, make_seat_view, observe
from tests.envs.openspiel_env.playing import GAMES, choice_of, first_decision, play, random_episode


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
def test_metadata_names_the_kind_of_the_tensor(game: str, kind: str, length: int) -> None:
    observation = OpenSpielEnvironment(game).reset(seed=1)

    assert observation.metadata["info_state_kind"] == kind
    assert len(observation.info_state) == length
    assert observation.metadata["text"]


def test_a_huge_tensor_is_left_out_and_the_text_remains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seat_view, "MAX_TENSOR_VALUES", 100)

    game = load_game("go", {})
    view = make_seat_view(game, 0)
    seen = observe(view, game.new_initial_state(), is_over=False)

    assert (seen.tensor, view.kind) == ([], "string")
    assert seen.text


def everything_sent(observations: list[OpenSpielObservation]) -> str:
    return json.dumps([observation.model_dump(exclude={"done", "reward"}) for observation in observations])


def test_in_kuhn_poker_nothing_sent_depends_on_the_opponents_card() -> None:
    """The agent's card and the public moves are the same; the opponent holds each of the other two cards."""
    seen: dict[str, set[str]] = {}
    opponents_cards: dict[str, set[int]] = {}
    for seed in range(60):
        env = OpenSpielEnvironment("kuhn_poker", opponent_policy="last")
        observations = [env.reset(seed=seed)]
        choice = GameChoice(game_name="kuhn_poker", opponent_policy="last")
        own, other = first_decision(choice, seed).state.history()[:2]
        observations.append(play(env, observations[0], 0))
        for observation in observations:
            observation.metadata.pop("seed", None)
        seen.setdefault(str(own), set()).add(everything_sent(observations))
        opponents_cards.setdefault(str(own), set()).add(other)

    assert {len(cards) for cards in opponents_cards.values()} == {2}
    assert {len(views_seen) for views_seen in seen.values()} == {1}


def test_in_blackjack_nothing_sent_depends_on_the_dealers_hidden_card() -> None:
    game = load_game("blackjack", {})
    view = make_seat_view(game, 0)

    def after(hidden: int) -> tuple[list[float], str]:
        state = game.new_initial_state()
        for card in (12, 28, hidden, 32):
            state.apply_action(card)
        return view.tensor(state, 0), view.text(state, 0)

    assert after(1) == after(50)
    assert "??" in after(1)[1]


@pytest.mark.parametrize("game", ["phantom_ttt", "dark_hex", "kriegspiel", "battleship", "hearts"])
def test_moves_that_the_rules_hide_are_not_sent(game: str) -> None:
    observations = random_episode(OpenSpielEnvironment(game), 3)

    assert {observation.opponent_last_action for observation in observations} == {None}


def test_moves_that_the_rules_announce_are_sent() -> None:
    env = OpenSpielEnvironment("kuhn_poker", agent_player=1, opponent_policy="last")

    assert env.reset(seed=1).opponent_last_action == 1


def test_the_word_to_guess_is_not_sent() -> None:
    env = OpenSpielEnvironment("python_hangman")
    observation = env.reset(seed=1)
    state = first_decision(GameChoice(game_name="python_hangman"), 1).state
    word = str(state).split()[1]

    assert word not in everything_sent([observation])
    assert observation.metadata["text"].startswith("Letters Revealed: ____")
    assert state.information_state_string(0) not in observation.metadata["text"].split()


@pytest.mark.parametrize("wrapped", ["matrix_pd", "goofspiel"])
def test_a_simultaneous_game_played_in_turns_does_not_send_the_first_move_to_the_second_seat(wrapped: str) -> None:
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
        seen.add(everything_sent([observation]))

    assert len(seen) == 1


def test_action_names_are_those_of_openspiel() -> None:
    observation = OpenSpielEnvironment("connect_four").reset(seed=1)
    state = pyspiel.load_game("connect_four").new_initial_state()

    assert observation.metadata["legal_action_names"] == [state.action_to_string(0, a) for a in state.legal_actions()]


def test_a_cached_opening_equals_the_observation_of_the_state_in_every_game() -> None:
    num_cached = 0
    for game in GAMES:
        choice = GameChoice(**choice_of(game, 0))
        for seed in (0, 1, 0, 1):
            episode = first_decision(choice, seed)
            prepared, state = episode.prepared, episode.state
            if prepared.opening_cache is None:
                break
            num_cached += 1
            seen = observe(prepared.view, state, is_over=state.is_terminal())
            assert prepared.opening_cache.observe(state) == seen, (game, seed)
    assert num_cached > 4 * 60


def test_changing_an_observation_does_not_change_later_ones() -> None:
    env = OpenSpielEnvironment("tic_tac_toe")
    first = env.reset(seed=0)
    before = first.model_dump()
    first.legal_actions.clear()
    first.info_state.clear()
    first.metadata["legal_action_names"].clear()
    first.metadata["text"] = ""

    assert OpenSpielEnvironment("tic_tac_toe").reset(seed=0).model_dump() == before


@pytest.mark.parametrize("game", ["cribbage", "coin_game", "blackjack"])
def test_a_game_with_many_openings_caches_a_limited_number(game: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seat_view, "MAX_OPENING_CACHE_SIZE", 2000)
    cache = OpeningCache(load_game(game, {}), 0)
    states = [first_decision(GameChoice(game_name=game), seed).state for seed in range(100)]
    first = [cache.observe(state) for state in states]

    assert 0 < len(cache) < 60
    assert [cache.observe(state) for state in states] == first
