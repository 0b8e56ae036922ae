"""The remark in a report of training about blackjack, and about no other game."""

import math

from openenv.envs.catalog import remarks
from openenv.envs.openspiel_env.blackjack_replies import reply_share

DECISIONS = {"hard 16": {"hit": 3, "stand": 1}, "hard 9": {"hit": 2}, "soft 18": {"stand": 1}, "hard 20": {"stand": 4}}


def test_the_share_of_a_reply_is_over_all_totals_of_a_range() -> None:
    assert reply_share(DECISIONS, "hit", "hard", range(4, 12)) == 1.0
    assert reply_share(DECISIONS, "hit", "hard", range(9, 17)) == 5 / 6
    assert math.isnan(reply_share(DECISIONS, "hit", "hard", range(21, 22)))


def test_the_remark_compares_low_and_high_hands() -> None:
    assert list(remarks(DECISIONS)) == ["P(hit) is 1.000 for hard totals up to 11 and 0.000 from hard 17"]


def test_another_game_has_no_remark() -> None:
    assert list(remarks({"": {"left": 3}})) == []
