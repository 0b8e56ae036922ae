"""The guess environment: one guess of a number that is written in words."""

from random import Random

import pytest

from openenv.auto.environment import named_environment
from openenv.core.errors import EnvironmentFault
from openenv.envs.guess_env import GuessAction, GuessEnv
from openenv.envs.guess_env.models import WORDS
from openenv.envs.guess_env.server.app import app


@pytest.fixture(scope="module")
def url(module_serving):
    return module_serving(app)


def test_the_right_number_earns_one_and_a_wrong_one_nothing(url):
    with GuessEnv(url) as env:
        number = WORDS.index(env.reset(seed=3).observation.word)
        right = env.step(GuessAction(number=number))
        env.reset(seed=3)
        wrong = env.step(GuessAction(number=(number + 1) % 10))

        assert (right.reward, right.done, wrong.reward, wrong.done) == (1.0, True, 0.0, True)
        assert env.state().step_count == 1


def test_equal_seeds_give_equal_words_and_all_words_occur(url):
    with GuessEnv(url) as env:
        words = [env.reset(seed=seed).observation.word for seed in range(100)]

        assert [env.reset(seed=seed).observation.word for seed in range(100)] == words
        assert set(words) == set(WORDS)


def test_a_saved_guess_is_restored(url):
    with GuessEnv(url) as env:
        word = env.reset(seed=3).observation.word
        token = env.save()
        env.reset(seed=4)
        env.restore(token)

        assert env.step(GuessAction(number=WORDS.index(word))).reward == 1.0


def test_another_keyword_of_reset_is_refused(url):
    with GuessEnv(url) as env, pytest.raises(EnvironmentFault, match="got level"):
        env.reset(level=2)


def test_random_play_of_the_derived_text_interface_wins_a_tenth(url):
    with named_environment(url).served() as served, served.client() as client:
        assert served.client_class is GuessEnv
        rng, wins = Random(1), 0.0
        for seed in range(300):
            seen = client.reset(seed=seed).observation
            assert served.text.describe(seen) == seen.word
            wins += client.step(served.text.random_reply(seen, rng)[1]).reward
        assert 15 <= wins <= 50
