"""A segment grows by the turns of its episode."""

import pickle
import random

import pytest

from openenv.rl.algorithm.segment import Segment

SHOWN, SAMPLED = (False, False), (True, True)


def first() -> Segment:
    return Segment((5, 6, 7, 8), SHOWN + SAMPLED, (0.0, 0.0, -1.0, -2.0), 3)


def test_a_turn_appends_its_tokens_with_their_own_version() -> None:
    segment = first()

    assert segment.extend(Segment((5, 6, 7, 8, 9, 1), (False,) * 5 + (True,), (0.0,) * 5 + (-3.0,), 4))

    assert segment.token_ids.tolist() == [5, 6, 7, 8, 9, 1]
    assert segment.sampled.tolist() == [False, False, True, True, False, True]
    assert segment.logprobs.tolist() == [0.0, 0.0, -1.0, -2.0, 0.0, -3.0]
    assert segment.versions.tolist() == [3, 3, 3, 3, 4, 4]
    assert (segment.policy_version, segment.replies, segment.prompts) == (3, [(7, 8), (1,)], [(5, 6), (9,)])


@pytest.mark.parametrize(
    "newer",
    [
        Segment((5, 6, 7, 9, 9, 1), (False,) * 5 + (True,), (0.0,) * 6, 4),
        Segment((5, 6, 7), (False,) * 2 + (True,), (0.0,) * 3, 4),
        Segment((5, 6, 7, 8, 1), SHOWN + (True,) * 3, (0.0,) * 5, 4),
    ],
    ids=["another prompt", "a shorter one", "sampled again"],
)
def test_what_does_not_continue_a_segment_leaves_it_as_it_was(newer: Segment) -> None:
    segment = first()

    assert not segment.extend(newer)
    assert segment.token_ids.tolist() == [5, 6, 7, 8]
    assert segment.versions.tolist() == [3, 3, 3, 3]


def test_masks_begin_with_the_first_turn_that_has_some() -> None:
    segment = first()

    assert segment.extend(Segment((5, 6, 7, 8, 1), (False,) * 4 + (True,), (0.0,) * 5, 4, masks=[None] * 4 + [b"1"]))
    assert segment.masks == [None, None, None, None, b"1"]
    assert segment.extend(Segment((5, 6, 7, 8, 1, 2), (False,) * 5 + (True,), (0.0,) * 6, 4))
    assert segment.masks == [None, None, None, None, b"1", None]


def test_an_episode_of_many_turns_is_copied_a_few_times_only() -> None:
    segment, rng = first(), random.Random(0)
    places: set[int] = set()
    for turn in range(1000):
        ids = (*segment.token_ids, *(rng.randrange(100) for _ in range(3)))
        assert segment.extend(Segment(ids, (False,) * len(segment) + (False, True, True), (0.0,) * len(ids), turn))
        places.add(segment.token_ids.__array_interface__["data"][0])

    assert len(segment) == 3004
    assert segment.versions[-1] == 999
    assert len(places) < 12  # its room doubles


def test_a_segment_is_sent_as_its_arrays() -> None:
    segment = Segment(range(10_000), [True] * 10_000, [-1.0] * 10_000, 1)

    sent = pickle.dumps(segment)

    assert len(sent) < 14 * 10_000  # 4 + 1 + 4 + 4 bytes a token, and some
    assert pickle.loads(sent).token_ids.tolist() == list(range(10_000))
