"""Rubrics of whole episodes."""

import pytest

from openenv.rubrics import ExponentialDiscountingTrajectoryRubric, TrajectoryRubric, WeightedSum
from tests.rubrics.parts import Seen


class EqualShares(TrajectoryRubric):
    """The last observation's reward, divided equally."""

    def score_trajectory(self, trajectory):
        return trajectory[-1][1].reward

    def compute_step_rewards(self):
        return [self.score_trajectory(self._trajectory) / len(self._trajectory)] * len(self._trajectory)


class Discounted(ExponentialDiscountingTrajectoryRubric):
    """The last observation's reward, discounted."""

    def score_trajectory(self, trajectory):
        return trajectory[-1][1].reward


def played(rubric, steps=3, reward=1.0):
    """Scores of an episode of some steps, the last of which is done."""
    return [rubric(n, Seen(done=n == steps - 1, reward=reward)) for n in range(steps)]


def test_a_trajectory_rubric_needs_both_of_its_methods():
    with pytest.raises(TypeError, match="abstract"):
        TrajectoryRubric()
    with pytest.raises(TypeError, match="abstract"):
        ExponentialDiscountingTrajectoryRubric()


def test_steps_score_the_intermediate_reward_until_the_episode_is_done():
    assert played(EqualShares()) == [0.0, 0.0, 1.0]
    assert played(EqualShares(intermediate_reward=0.1)) == [0.1, 0.1, 1.0]


def test_an_observation_that_cannot_be_done_is_no_end():
    assert EqualShares(intermediate_reward=0.25)("action", "text") == 0.25


def test_the_steps_are_kept_as_they_were_until_the_reset():
    rubric = EqualShares()
    played(rubric, steps=2)
    assert [action for action, _ in rubric.trajectory] == [0, 1]
    rubric.trajectory.clear()
    assert len(rubric.trajectory) == 2
    rubric.reset()
    assert rubric.trajectory == []


def test_episodes_are_divided_by_the_reset_of_the_rubric_that_holds_theirs():
    part = EqualShares()
    whole = WeightedSum([part], [1.0])
    played(whole)
    whole.reset()
    assert part.trajectory == []


def test_discounted_rewards_grow_towards_the_end_of_the_episode():
    rubric = Discounted(gamma=0.5)
    played(rubric, steps=4, reward=0.8)
    assert rubric.compute_step_rewards() == pytest.approx([0.1, 0.2, 0.4, 0.8])


def test_with_gamma_one_all_steps_are_alike_and_with_zero_only_the_last_counts():
    same, last = Discounted(gamma=1.0), Discounted(gamma=0.0)
    played(same)
    played(last)
    assert same.compute_step_rewards() == [1.0, 1.0, 1.0]
    assert last.compute_step_rewards() == [0.0, 0.0, 1.0]


def test_before_the_first_step_there_are_no_rewards():
    assert Discounted().compute_step_rewards() == []


@pytest.mark.parametrize("gamma", [-0.1, 1.1, float("nan")])
def test_a_discount_outside_zero_to_one_is_refused(gamma):
    with pytest.raises(ValueError, match="lies between 0"):
        Discounted(gamma=gamma)
    with pytest.raises(ValueError, match="lies between 0"):
        Discounted().load_state_dict({"gamma": gamma})


def test_the_configuration_goes_into_another_rubric_and_the_steps_do_not():
    rubric, other = Discounted(gamma=0.5, intermediate_reward=0.1), Discounted()
    played(rubric)
    assert rubric.state_dict() == {"gamma": 0.5, "intermediate_reward": 0.1}
    other.load_state_dict(rubric.state_dict())
    assert other.state_dict() == rubric.state_dict()
    assert other.trajectory == []


def test_a_configuration_without_a_key_changes_nothing():
    rubric = Discounted(gamma=0.5, intermediate_reward=0.1)
    rubric.load_state_dict({})
    assert rubric.state_dict() == {"gamma": 0.5, "intermediate_reward": 0.1}


def test_a_refused_configuration_changes_nothing():
    rubric = Discounted(gamma=0.5, intermediate_reward=0.1)
    with pytest.raises(ValueError, match="gamma"):
        rubric.load_state_dict({"gamma": 2.0, "intermediate_reward": 0.9})
    assert rubric.state_dict() == {"gamma": 0.5, "intermediate_reward": 0.1}


async def test_a_trajectory_may_be_scored_asynchronously():
    class Judged(Discounted):
        async def score_trajectory(self, trajectory):
            return trajectory[-1][1].reward

    rubric = Judged()
    assert rubric(0, Seen()) == 0.0
    assert await rubric(1, Seen(done=True, reward=0.5)) == rubric.last_score == 0.5
