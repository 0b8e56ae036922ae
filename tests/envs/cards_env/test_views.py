"""What a seat sees does not depend on what is hidden from it."""

from copy import deepcopy
from random import Random

import pytest

from tests.envs.extras import require_extra

require_extra("rlcard", "cards")

from openenv.envs.cards_env.server.games import GAMES, make_game
from openenv.envs.cards_env.server.views import view


def others(env, seat):
    return [player for player in env.game.players if player.player_id != seat]


def hidden_lists(env, seat):
    """The lists of a game that hold cards that the seat does not see."""
    game = env.game
    if env.name == "gin-rummy":
        other = game.round.players[1 - seat]
        return [game.round.dealer.stock_pile, other.hand]
    if env.name == "doudizhu":
        return [player._current_hand for player in others(env, seat)]
    decks = [game.dealer.deck]
    if env.name == "blackjack":
        return decks
    if env.name == "leduc-holdem":
        return decks
    return [*decks, *(player.hand for player in others(env, seat))]


def shuffled(env, seat, rng):
    """A copy of a game in which the hidden cards lie elsewhere."""
    env = deepcopy(env)
    lists = hidden_lists(env, seat)
    known = env.game.round.players[1 - seat].known_cards if env.name == "gin-rummy" else []
    pool = [card for cards in lists for card in cards if card not in known]
    if env.name == "leduc-holdem":
        pool += [player.hand for player in others(env, seat)]
    if env.name == "blackjack":
        pool.append(env.game.dealer.hand[0])
    before = list(pool)
    rng.shuffle(pool)
    for cards in lists:
        cards[:] = [card if card in known else pool.pop() for card in cards]
    if env.name == "leduc-holdem":
        for player in others(env, seat):
            player.hand = pool.pop()
    if env.name == "blackjack":
        env.game.dealer.hand[0] = pool.pop()
    assert not pool
    return env, before


@pytest.mark.parametrize("game", GAMES)
def test_other_hidden_cards_change_nothing_that_the_seat_sees(game):
    rng, num_views = Random(1), 0
    for seed in range(8):
        env = make_game(game, GAMES[game].num_players, seed)
        seen, player = env.reset()
        while not env.is_over():
            other, hidden = shuffled(env, player, rng)
            assert len(hidden) > 1
            assert view(other, player) == view(env, player)
            num_views += 1
            seen, player = env.step(rng.choice(sorted(seen["legal_actions"])))

    assert num_views >= 8


@pytest.mark.parametrize("game", GAMES)
def test_the_hand_is_the_seats_own_also_when_another_seat_is_to_act(game):
    env = make_game(game, GAMES[game].num_players, 3)
    seen, player = env.reset()
    rng, hands = Random(0), {}
    for _ in range(6):
        if env.is_over():
            break
        hands = {seat: view(env, seat).hand for seat in range(GAMES[game].num_players)}
        assert view(env, player).hand == hands[player]
        assert all(hands.values())
        seen, player = env.step(rng.choice(sorted(seen["legal_actions"])))

    assert len({tuple(hand) for hand in hands.values()}) == len(hands), "the seats hold different cards"


def test_the_dealers_first_card_is_seen_when_the_hand_is_over():
    env = make_game("blackjack", 1, 3)
    env.reset()
    before = view(env, 0).public
    env.step(1)

    assert len(before.split()) == 2
    assert len(view(env, 0).public.split()) > 2
