"""An environment is a class of tools for TRL: typed, documented, and learned by its GRPOTrainer."""

import inspect
from pathlib import Path

import pytest
from transformers.utils import get_json_schema

from openenv.core import Action, Environment, Observation, State
from openenv.core.env_server import create_app
from openenv.core.errors import EnvironmentFault
from openenv.envs.echo_env import EchoEnv
from openenv.hosting.local_process import LocalServer
from openenv.integrations.trl import ToolEnvironment, as_environment_factory
from tests.integrations.trl.trainers import echo_caller, episodes_per_s, trainer
from tests.integrations_table import Record

pytestmark = [pytest.mark.process, pytest.mark.filterwarnings("ignore")]

THERMOSTAT = f"{Path(__file__).parents[2] / 'acceptance/games/thermostat.py'}:ThermostatEnvironment"
BLACKJACK = {"reset": {"game_name": "blackjack"}}


@pytest.fixture(scope="module")
def factories():
    made = {
        "echo": as_environment_factory("echo"),
        "openspiel": as_environment_factory("openspiel", **BLACKJACK),
        "wildfire": as_environment_factory("wildfire"),
        "thermostat": as_environment_factory(THERMOSTAT),
    }
    yield made
    for factory in made.values():
        factory.stop_server()


def tools(factory: type[ToolEnvironment]) -> dict[str, dict[str, object]]:
    """The tools as TRL finds them, and as transformers describes them to a model."""
    found = inspect.getmembers(factory, inspect.isfunction)
    names = [name for name, _ in found if name not in ("reset", "get_reward") and not name.startswith("_")]
    env = factory()
    return {name: get_json_schema(getattr(env, name))["function"]["parameters"] for name in names}


def test_an_action_is_one_method_with_its_fields_and_their_descriptions(factories) -> None:
    message = {"type": "string", "description": "The message to send"}
    assert tools(factories["echo"]) == {
        "echo": {"type": "object", "properties": {"message": message}, "required": ["message"]}
    }


def test_one_of_several_words_is_a_choice_and_a_field_with_a_default_may_be_left_out(factories) -> None:
    (wildfire,) = tools(factories["wildfire"]).values()
    assert wildfire["properties"]["kind"]["enum"] == ["water", "firebreak", "wait"]
    assert wildfire["properties"]["row"]["type"] == "integer"
    assert wildfire["required"] == ["kind"]


def test_each_mcp_tool_is_a_method(factories) -> None:
    thermostat = tools(factories["thermostat"])
    assert set(thermostat) == {"heat", "cool"}
    assert thermostat["heat"]["properties"]["degrees"]["type"] == "integer"
    env = factories["thermostat"]()
    env.reset(seed=3)
    env.heat(degrees=2)
    assert env.done


def test_an_episode_is_played_and_its_rewards_are_added_up(factories) -> None:
    env = factories["openspiel"]()
    first = env.reset(prompt="ignored", seed=3)
    assert "open_spiel(action_id=0) : hit" in first
    assert env.get_reward() == 0.0
    last = env.open_spiel(action_id=1)
    assert last.endswith(f"The episode is over. Its reward is {env.get_reward():g}.")
    assert env.get_reward() in (-1.0, 0.0, 1.0)


def test_what_is_seen_first_stands_apart_from_the_prompt_to_which_trl_adds_it(factories) -> None:
    env = factories["echo"]()
    alone = env.reset(prompt=[{"role": "user", "content": ""}])
    assert env.reset(prompt=[{"role": "user", "content": "Play."}]) == f"\n\n{alone}"


def test_a_wrong_call_names_the_field_and_leaves_the_episode_as_it_was(factories) -> None:
    env = factories["openspiel"]()
    env.reset(seed=3)
    before = env.observation
    with pytest.raises(ValueError, match="action_id"):
        env.open_spiel(action_id="hit")
    with pytest.raises(ValueError, match=r"0.*1"):
        env.open_spiel(action_id=9)
    assert env.observation == before
    env.open_spiel(action_id=1)
    with pytest.raises(ValueError, match="over"):
        env.open_spiel(action_id=1)


class DoorAction(Action):
    """Opens a door."""

    door: int


class DoorEnvironment(Environment[DoorAction, Observation, State]):
    """Door 1 is refused; behind door 2 the environment fails; door 3 gives 1."""

    def reset(self, seed=None, episode_id=None, **kwargs):
        return Observation()

    def step(self, action, timeout_s=None, **kwargs):
        if action.door == 1:
            raise ValueError("door 1 is locked")
        if action.door == 2:
            raise OSError("the disk is full")
        return Observation(reward=1.0)

    @property
    def state(self):
        return State()


def test_a_failure_of_the_environment_leaves_the_episode_without_a_reward(serving) -> None:
    env = as_environment_factory(serving(create_app(DoorEnvironment)))()
    env.reset()
    env.door(door=3)
    with pytest.raises(ValueError, match="door 1 is locked"):
        env.door(door=1)
    assert (env.done, env.get_reward()) == (False, 1.0)

    with pytest.raises(EnvironmentFault, match="the disk is full"):
        env.door(door=2)

    assert (env.done, env.get_reward()) == (True, None)
    env.reset()
    env.door(door=3)
    assert env.get_reward() == 1.0


def test_members_of_a_group_begin_from_one_seed() -> None:
    factory = as_environment_factory("openspiel", group_size=4, **BLACKJACK)
    members = [factory() for _ in range(16)]
    for _ in range(2):
        seen = [env.reset() for env in members]
        assert all(len(set(seen[start : start + 4])) == 1 for start in range(0, 16, 4))
        assert len(set(seen)) > 1
    factory.stop_server()


def test_a_client_class_plays_a_server_that_runs() -> None:
    with pytest.raises(ValueError, match="EchoEnv needs base_url"):
        as_environment_factory(EchoEnv)
    with LocalServer("openenv.envs.echo_env.server.app") as server:
        env = as_environment_factory(EchoEnv, base_url=server.base_url, instructions="Echo a word.")()
        assert env.reset().startswith("Echo a word.\n")
        assert env.echo(message="hello") == "Received: hello"
        assert env.get_reward() == pytest.approx(0.5)


@pytest.mark.integration("TRL", "GRPOTrainer with an environment_factory on echo, tool calls", package="trl")
def test_trl_trains_a_model_to_call_the_tool_with_longer_messages(
    factories, tmp_path: Path, record_property: Record
) -> None:
    model, tokenizer = echo_caller(factories["echo"])
    made = trainer(
        model, tokenizer, tmp_path, None, environment_factory=factories["echo"],
        args={
            "max_steps": 25, "max_completion_length": 64, "max_tool_calling_iterations": 1, "learning_rate": 1e-3,
            "chat_template_kwargs": {"enable_thinking": False}, "logging_strategy": "steps", "logging_steps": 1,
            "per_device_train_batch_size": 32,
        },
    )  # fmt: skip
    made.train()

    rewards = [row["reward"] for row in made.state.log_history if "reward" in row]
    first, last = (sum(part) / 5 for part in (rewards[:5], rewards[-5:]))
    record_property("figure", f"reward {first:.2f} to {last:.2f}, {episodes_per_s(made):.0f} episodes/s")
    assert last > 1.3 * first
    assert sum(row["tools/call_frequency"] for row in made.state.log_history if "reward" in row) > 0
