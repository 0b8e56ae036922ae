"""Transforms of observations, and the parts of an environment that apply transforms and rubrics."""

import pytest

from openenv.core import Environment
from openenv.core.env_server import create_app
from openenv.core.env_server.base_transforms import CompositeTransform, NullTransform
from openenv.core.env_server.interfaces import Message, ModelTokenizer, TaskProvider, Transform
from openenv.rubrics import Gate, Rubric, TrajectoryRubric, WeightedSum
from tests.core.counting_env import CountAction, CountEnv, CountObservation, CountState
from tests.rubrics.parts import AsyncConstant, Constant


class Add(Transform[CountObservation]):
    def __init__(self, amount: int) -> None:
        self.amount = amount

    def __call__(self, observation):
        observation.total += self.amount
        return observation


class Double(Transform[CountObservation]):
    def __call__(self, observation):
        return CountObservation(total=2 * observation.total, done=observation.done, reward=observation.reward)


class Progress(Rubric):
    def forward(self, action, observation):
        return observation.total / 10


class StepsTaken(TrajectoryRubric):
    def score_trajectory(self, trajectory):
        return float(len(trajectory))

    def compute_step_rewards(self):
        return [1.0] * len(self.trajectory)


class Scored(Environment[CountAction, CountObservation, CountState]):
    """Counts to ten; what it is rewarded for and what is seen of it are given from outside."""

    def __init__(self, transform=None, rubric=None):
        super().__init__(transform=transform, rubric=rubric)
        self._total = 0

    def reset(self, seed=None, episode_id=None, **kwargs):
        self._total = 0
        self._reset_rubric()
        return self._apply_transform(CountObservation(total=0))

    def step(self, action, timeout_s=None, **kwargs):
        self._total += action.amount
        observation = CountObservation(total=self._total, done=self._total >= 10)
        observation.reward = self._apply_rubric(action, observation)
        return self._apply_transform(observation)

    @property
    def state(self):
        return CountState(total=self._total)


class ScoredAsync(Scored):
    """The same for rubrics that are awaited."""

    async def reset_async(self, seed=None, episode_id=None, **kwargs):
        await self._reset_rubric_async()
        return self._apply_transform(CountObservation(total=0))

    async def step_async(self, action, timeout_s=None, **kwargs):
        observation = CountObservation(total=action.amount)
        observation.reward = await self._apply_rubric_async(action, observation)
        return observation


class ScoredInline(Scored):
    """The same in the server's event loop."""

    execution = "inline"


def played(env, *amounts):
    """Rewards and totals of an episode."""
    env.reset()
    results = [env.step(CountAction(amount=amount)) for amount in amounts]
    return [(result.reward, result.observation.total) for result in results]


def test_a_null_transform_returns_the_same_observation():
    observation = CountObservation(total=1)
    assert NullTransform()(observation) is observation


def test_transforms_are_applied_one_after_the_other():
    assert CompositeTransform([Add(1), Double(), Add(3)])(CountObservation(total=4)).total == 13
    assert CompositeTransform([])(CountObservation(total=4)).total == 4


def test_a_transform_needs_a_call():
    with pytest.raises(TypeError, match="__call__"):
        Transform()


@pytest.mark.parametrize("environment_cls", [Scored, ScoredInline])
def test_a_client_gets_the_rubrics_reward_and_the_transforms_observation(serving, environment_cls):
    def make() -> environment_cls:
        rubric = WeightedSum([Gate(Progress(), threshold=0.5), StepsTaken()], [0.5, 0.5])
        return environment_cls(transform=CompositeTransform([Double(), Add(100)]), rubric=rubric)

    url = serving(create_app(make, CountAction, CountObservation))
    with CountEnv(url) as env:
        assert env.reset().observation.total == 100
        assert played(env, 4, 2, 4) == [(0.0, 108), (0.3, 112), (2.0, 120)]
        assert played(env, 10) == [(1.0, 120)], "the rubric forgot the episode before"


def test_a_client_gets_the_reward_of_an_asynchronous_rubric(serving):
    def make() -> ScoredAsync:
        return ScoredAsync(rubric=WeightedSum([AsyncConstant(1.0), Progress()], [0.5, 0.5]))

    with CountEnv(serving(create_app(make))) as env:
        assert played(env, 5) == [(0.75, 5)]


def test_without_a_rubric_the_reward_is_zero_and_without_a_transform_nothing_changes():
    env = Scored()
    env.reset()
    observation = env.step(CountAction(amount=4))
    assert (observation.reward, observation.total) == (0.0, 4)


async def test_without_a_rubric_the_awaited_reward_is_zero_too():
    env = ScoredAsync()
    await env.reset_async()
    assert (await env.step_async(CountAction(amount=4))).reward == 0.0


def test_an_environment_that_never_calls_the_base_constructor_has_neither():
    class WithoutBaseConstructor(Scored):
        def __init__(self):
            pass

    env = WithoutBaseConstructor()
    assert env.transform is None
    assert env.rubric is None
    assert env.reset().total == 0
    assert env.step(CountAction(amount=1)).reward == 0.0


@pytest.mark.parametrize("rubric", [Constant(0.5), AsyncConstant(0.5)])
async def test_the_awaited_reward_is_that_of_either_kind_of_rubric(rubric):
    env = ScoredAsync(rubric=rubric)
    assert (await env.step_async(CountAction(amount=1))).reward == 0.5


async def test_a_rubric_is_reset_in_its_own_way():
    class Remote(Constant):
        async def reset_async(self):
            self.calls = 0

    remote, local = Remote(1.0), StepsTaken()
    for rubric in (remote, local):
        rubric(None, CountObservation(total=1))
        await ScoredAsync(rubric=rubric).reset_async()
    assert remote.calls == 0
    assert local.trajectory == []


def test_the_protocols_name_what_a_tokenizer_and_a_provider_of_tasks_may_have():
    assert Message(role="user", content="hello") == {"role": "user", "content": "hello"}
    assert {name for name in vars(ModelTokenizer) if not name.startswith("_")} == {"apply_chat_template", "decode"}
    assert {name for name in vars(TaskProvider) if not name.startswith("_")} == {
        "get_task", "get_task_range", "list_splits", "list_tasks", "num_tasks",
    }  # fmt: skip


class AsynchronousAlone(Environment[CountAction, CountObservation, CountState]):
    """Writes the asynchronous twins and no plain methods."""

    def __init__(self):
        self._state = CountState()

    async def reset_async(self, seed=None, episode_id=None, **kwargs):
        self._state = CountState(episode_id=episode_id)
        return CountObservation(total=0)

    async def step_async(self, action, timeout_s=None, **kwargs):
        return CountObservation(total=action.amount, done=True)

    @property
    def state(self):
        return self._state


@pytest.mark.finding("an environment of any name is played to its end, and the fields of an action are an action")
def test_an_environment_may_write_the_asynchronous_methods_alone(serving):
    with CountEnv(serving(create_app(AsynchronousAlone))) as env:
        env.reset()
        assert env.step(CountAction(amount=3)).observation.total == 3

    with pytest.raises(TypeError, match=r"AsynchronousAlone is asynchronous: await its step_async\(\)"):
        AsynchronousAlone().step(CountAction(amount=3))
