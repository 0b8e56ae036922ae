"""Random play of TextArena alone."""

from collections.abc import Iterator
from random import Random

from openenv.envs.textarena_env.models import TextArenaAction
from openenv.envs.textarena_env.server.environment import TextArenaEnvironment
from openenv.envs.textarena_env.server.games import make_game
from openenv.envs.textarena_env.text import TextArenaText

_MOST_REPLIES = 100
_NUM_GAMES = 20


def random_replies(game: str) -> Iterator[int]:
    """All seats of some games at random, with the replies that its messages show. The games are played before."""
    played = [_replies(game, seed) for seed in range(_NUM_GAMES)]
    yield 0
    while True:
        for seed, (num_players, replies) in enumerate(played):
            made = make_game(game, num_players, seed)
            for reply in replies:
                made.get_observation()
                made.step(reply)
                yield 1


def _replies(game: str, seed: int) -> tuple[int, list[str]]:
    environment, text, rng, replies = TextArenaEnvironment(game), TextArenaText(), Random(seed), list[str]()
    seen = environment.reset(seed=seed)
    while not seen.done and len(replies) < _MOST_REPLIES:
        replies.append(text.random_reply(seen, rng)[0])
        seen = environment.step(TextArenaAction(message=replies[-1]))
    return environment.state.num_players, replies
