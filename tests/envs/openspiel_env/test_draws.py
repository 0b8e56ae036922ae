"""What chance and opponents draw from."""

from collections import Counter
from itertools import islice

from openenv.envs.openspiel_env.server.draws import draw_bits, draws_of


def test_equal_seeds_draw_equal_numbers_for_as_long_as_they_are_asked_for() -> None:
    drawn = list(islice(draws_of(7), 1000))

    assert drawn == list(islice(draws_of(7), 1000))
    assert len(set(drawn)) == 1000


def test_the_first_numbers_of_many_seeds_are_all_as_likely() -> None:
    for place in (0, 15, 16, 40):
        counts = Counter(next(islice(draws_of(seed), place, None)) % 6 for seed in range(6000))
        chi_squared = sum((counts[face] - 1000) ** 2 / 1000 for face in range(6))
        assert chi_squared < 25.7, place  # 5 degrees of freedom: one generator in 10,000 is above it


def test_numbers_have_32_bits_and_as_few_as_are_wanted() -> None:
    draws = draws_of(1)
    assert max(draws_of(seed).__next__().bit_length() for seed in range(50)) == 32
    assert {draw_bits(draws, 2) for _ in range(200)} == {0, 1, 2, 3}


def test_a_seed_draws_the_same_in_every_version_and_on_every_machine() -> None:
    assert [next(draws_of(seed)) for seed in (0, 1, 2**31)] == [1745844397, 699604630, 2539404983]
