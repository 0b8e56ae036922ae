"""The random streams of chance and opponents."""

from collections import Counter
from itertools import islice

from openenv.envs.openspiel_env.server.rng import make_rng, random_bits


def test_equal_seeds_give_equal_endless_streams() -> None:
    numbers = list(islice(make_rng(7), 1000))

    assert numbers == list(islice(make_rng(7), 1000))
    assert len(set(numbers)) == 1000


def test_the_numbers_at_a_position_are_uniform_over_seeds() -> None:
    for position in (0, 15, 16, 40):
        counts = Counter(next(islice(make_rng(seed), position, None)) % 6 for seed in range(6000))
        chi_squared = sum((counts[face] - 1000) ** 2 / 1000 for face in range(6))
        assert chi_squared < 25.7, position  # 5 degrees of freedom, p = 0.0001


def test_numbers_have_32_bits_or_as_few_as_requested() -> None:
    rng = make_rng(1)
    assert max(next(make_rng(seed)).bit_length() for seed in range(50)) == 32
    assert {random_bits(rng, 2) for _ in range(200)} == {0, 1, 2, 3}


def test_a_seed_rng_the_same_in_every_version_and_on_every_machine() -> None:
    assert [next(make_rng(seed)) for seed in (0, 1, 2**31)] == [1745844397, 699604630, 2539404983]
