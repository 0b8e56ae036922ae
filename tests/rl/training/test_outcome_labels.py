"""The label of an episode at the end of its transcript."""

from openenv.rl.training.outcome_labels import outcome_labels


def test_games_have_the_words_of_games() -> None:
    assert outcome_labels({1.0: 5, 0.0: 1, -1.0: 4}) == {1.0: "won", 0.0: "push", -1.0: "lost"}
    assert outcome_labels({1.0: 5, 0.0: 95}) == {1.0: "won", 0.0: "push"}


def test_up_to_five_returns_have_a_label_each() -> None:
    assert outcome_labels({-1.0: 5, -2.5: 3, 1.0: 2}) == {
        -1.0: "return=-1",
        -2.5: "return=-2.5",
        1.0: "return=1",
    }


def test_more_returns_are_divided_into_eight_bins_of_equally_many_episodes() -> None:
    labels = outcome_labels({float(value): 3 for value in range(-80, 0)})

    assert labels[-80.0] == labels[-71.0] == "return=-80..-71"
    assert labels[-70.0] == "return=-70..-61"
    assert len(set(labels.values())) == 8


def test_a_frequent_return_has_its_own_bin_and_the_others_share_the_rest() -> None:
    labels = outcome_labels({-100.0: 900, **{float(-100 - value): 5 for value in range(1, 41)}})

    assert labels[-100.0] == "return=-100"
    assert len(set(labels.values())) > 4
