"""The calendars behind a real server: tools, seeds, limits, snapshots, and errors."""

from random import Random

import pytest

from tests.envs.extras import require_extra

require_extra("fastmcp", "calendar")

from openenv.core.env_server.mcp_types import CallToolAction
from openenv.core.errors import EnvironmentFault
from openenv.core.mcp_client import MCPToolClient
from openenv.envs.calendar_env import CalendarEnv, CalendarObservation
from openenv.envs.calendar_env.players import solution
from openenv.envs.calendar_env.server.app import app
from openenv.envs.calendar_env.server.environment import CalendarEnvironment
from openenv.envs.calendar_env.server.task_kinds import KINDS
from openenv.envs.calendar_env.solvers.assistant import Assistant
from openenv.text.derived import DerivedText


@pytest.fixture(scope="module")
def url(module_serving):
    return module_serving(app)


def call(env, tool, **arguments):
    return env.step(CallToolAction(tool_name=tool, arguments=arguments))


def data(env, tool, **arguments):
    """What a tool returns."""
    observation = call(env, tool, **arguments).observation
    assert observation.error is None, observation.error
    return observation.result["data"]


def problem(env, tool, **arguments):
    """The message of a tool's error."""
    return call(env, tool, **arguments).observation.error.message


def solved(env, observation):
    """The last result of the solver's calls."""
    results = []

    def use(tool, **arguments):
        results.append(call(env, tool, **arguments))
        return results[-1].observation.result["data"]

    Assistant(observation.task, use).solve()
    return results[-1]


def all_events(env, monday="2026-01-01", last="2028-12-31"):
    return data(env, "list_events", start=f"{monday} 00:00", end=f"{last} 00:00")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("level", [1, 2, 3])
def test_the_tools_solve_every_kind_of_task_and_nothing_done_earns_nothing(url, kind, level):
    with CalendarEnv(url) as env:
        for seed in range(4):
            first = env.reset(seed=seed, kind=kind, level=level)
            assert (first.reward, first.done) == (None, False)
            result = solved(env, first.observation)
            assert (result.reward, result.done) == (1.0, True), first.observation.task
            assert result.observation.metadata["rubric"] == {"progress": 1.0, "undamaged": 1.0}

            env.reset(seed=seed, kind=kind, level=level)
            assert call(env, "finish").reward == 0.0


def test_a_change_that_was_not_asked_for_costs_the_whole_reward(url):
    with CalendarEnv(url) as env:
        first = env.reset(seed=1, kind="cancel_day").observation
        others = [e for e in all_events(env) if not e["calendar"].startswith(first.task.split("calendar ")[1][:2])]
        data(env, "update_event", event_id=others[0]["event_id"], location="elsewhere")
        result = solved(env, first)

        assert result.reward == 0.0
        assert result.observation.metadata["rubric"] == {"progress": 1.0, "undamaged": 0.0}


def test_an_event_too_many_costs_the_whole_reward_and_half_the_work_earns_a_part_of_the_rubric(url):
    with CalendarEnv(url) as env:
        for kind, change in (("daily_series", "create_event"), ("postpone_day", "update_event")):
            env.reset(seed=3, kind=kind, level=3)
            state = env.state()
            calls = [action for action in solution_of(kind, 3, 3) if action.tool_name == change]
            for action in calls[:-1]:
                env.step(action)
            rubric = call(env, "finish").observation.metadata["rubric"]
            assert rubric == {"progress": pytest.approx(1 - 1 / len(calls)), "undamaged": 1.0}, state.task

        env.reset(seed=3, kind="daily_series", level=3)
        for action in [*calls_of_creation(3), calls_of_creation(3)[0]]:
            env.step(action)
        assert call(env, "finish").observation.metadata["rubric"] == {"progress": 1.0, "undamaged": 0.0}


def solution_of(kind, level, seed):
    """The tool calls of the solver for a task of one kind."""
    environment, calls = CalendarEnvironment(), []

    def use(tool, **arguments):
        calls.append(CallToolAction(tool_name=tool, arguments=arguments))
        return environment.step(calls[-1]).result.data

    Assistant(environment.reset(seed=seed, kind=kind, level=level).task, use).solve()
    environment.close()
    return calls


def calls_of_creation(seed):
    return [action for action in solution_of("daily_series", 3, seed) if action.tool_name == "create_event"]


@pytest.mark.parametrize(("right", "wrong"), [("{}", "{}1"), (" {} ", "none"), ("{}", "")])
def test_an_answer_is_right_or_wrong_and_may_be_a_number(url, right, wrong):
    answer = solution_of("count_hours", 1, 7)[-1].arguments["answer"]
    with CalendarEnv(url) as env:
        for text, reward in ((right.format(answer), 1.0), (wrong.format(answer), 0.0), (float(answer), 1.0)):
            env.reset(seed=7, kind="count_hours")
            assert call(env, "finish", answer=text).reward == reward


def test_the_last_step_ends_the_episode_with_the_reward_of_the_state(url):
    calls = solution_of("schedule_meeting", 1, 2)[:-1]
    with CalendarEnv(url) as env:
        env.reset(seed=2, kind="schedule_meeting", max_steps=len(calls))
        results = [env.step(action) for action in calls]
        assert [result.done for result in results] == [False] * (len(calls) - 1) + [True]
        assert results[-1].reward == 1.0

        env.reset(seed=2, kind="schedule_meeting", max_steps=3)
        results = [call(env, "no_such_tool"), call(env, "get_event", event_id="x"), call(env, "get_event", event_id=1)]
        assert [(result.done, result.reward) for result in results] == [(False, 0.0), (False, 0.0), (True, 0.0)]
        assert [result.observation.metadata["steps_left"] for result in results] == [2, 1, 0]


def test_equal_seeds_give_equal_tasks_beside_other_sessions_and_others_differ(url):
    def shown(env, seed):
        first = env.reset(seed=seed, level=2).observation
        return first.task, all_events(env), data(env, "list_people")

    with CalendarEnv(url) as env, CalendarEnv(url) as other:
        before = shown(env, 5)
        other.reset(seed=5, level=2)
        for event in all_events(other):
            data(other, "delete_event", event_id=event["event_id"])
            break
        assert shown(env, 5) == before
        assert shown(env, 6) != before


def test_without_a_seed_the_metadata_names_the_one_that_was_drawn(url):
    with CalendarEnv(url) as env:
        first = env.reset().observation

        assert isinstance(first, CalendarObservation)
        assert env.reset(seed=first.metadata["seed"]).observation == first


def test_a_restored_episode_has_the_database_the_steps_and_the_task(url):
    with CalendarEnv(url) as env:
        first = env.reset(seed=4, kind="set_location", level=2).observation
        data(env, "create_event", calendar="ana/work" if "ana" in first.task else _calendar(env), title="Extra",
             start="2026-03-02 09:00", end="2026-03-02 10:00")  # fmt: skip
        token, before, events = env.save(), env.state(), all_events(env)
        env.reset(seed=9)
        env.restore(token)

        assert env.state() == before
        assert all_events(env) == events
        assert solved(env, first).observation.metadata["rubric"] == {"progress": 1.0, "undamaged": 0.0}


def _calendar(env):
    return data(env, "list_people")[0]["calendars"][0]


def test_the_tools_can_be_called_by_name_and_the_state_has_the_reward(url):
    with MCPToolClient(url) as env:
        with pytest.raises(EnvironmentFault, match=r"there is no task yet\. Call reset\(\) first"):
            env.call_tool("list_people")
        env.reset(seed=4, kind="find_slot")
        assert {tool.name for tool in env.list_tools()} >= {"query", "finish", "respond"}
        assert [person["work_start"] for person in env.call_tool("list_people")] == ["09:00"] * 3
        assert env.state().step_count == 1
        assert env.call_tool("finish", answer=solution_of("find_slot", 1, 4)[-1].arguments["answer"]) == "finished"
        assert env.state().reward == 1.0
        with pytest.raises(EnvironmentFault, match=r"the episode is over\. Call reset\(\)"):
            env.call_tool("list_people")


ERRORS = [
    ("get_event", {"event_id": 99_999}, "event_id=99999: there is no such event. list_events shows the ids."),
    ("get_event", {"event_id": 1, "time_zone": "Mars"}, "time_zone='Mars': expected a name such as 'Europe/Berlin'"),
    ("list_events", {"start": "soon", "end": "2026-03-02"}, "start='soon': expected a time of this century"),
    ("list_events", {"start": "2026-03-02", "end": "2026-03-01"}, "end='2026-03-01': it must be later than start="),
    ("list_events", {"start": "2026-03-02", "end": "2026-03-03", "person": "zoe"}, "person='zoe': expected one of "),
    ("list_events", {"start": "0001-01-01 00:00", "end": "2026-03-02"}, "start='0001-01-01 00:00'"),
    ("list_events", {"start": "2026-03-02T00:00+02:00", "end": "2026-03-03"}, "validation error"),
    ("list_events", {"start": "2026-03-02 00Z", "end": "2026-03-03"}, "start='2026-03-02 00Z'"),
    ("find_free_slots", {"people": [], "day": "2026-03-02", "minutes": 30}, "people: the list is empty"),
    ("find_free_slots", {"people": ["zoe"], "day": "2026-03-02", "minutes": 30}, "people='zoe': expected one of"),
    ("create_event", {"calendar": "zoe/work", "title": "A", "start": "2026-03-02", "end": "2026-03-03"},
     "calendar='zoe/work': there is no such calendar. list_people shows the calendars."),
    ("create_event", {"calendar": "OWN", "title": "", "start": "2026-03-02", "end": "2026-03-03"}, "title=''"),
    ("create_event", {"calendar": "OWN", "title": "A\n", "start": "2026-03-02", "end": "2026-03-03"}, "printable"),
    ("create_event", {"calendar": "OWN", "title": "A", "start": "2026-03-02", "end": "2026-03-04"}, "at most a day"),
    ("create_event", {"calendar": "OWN", "title": "A", "start": "2026-03-02", "end": "2026-03-03", "people": ["zoe"]},
     "people='zoe': expected one of"),
    ("update_event", {"event_id": 1, "end": "2020-01-01 00:00"}, "the end must be later than the start"),
    ("update_event", {"event_id": 1, "title": "x" * 101}, "at most 100 characters"),
    ("delete_event", {"event_id": 0}, "greater than or equal to 1"),
    ("invite", {"event_id": 1, "person": "ATTENDEE"}, "attends event 1 already. respond changes the response."),
    ("uninvite", {"event_id": 1, "person": "ATTENDEE"}, "owns the calendar of event 1. Use delete_event to cancel it"),
    ("respond", {"event_id": 1, "person": "ABSENT", "response": "accepted"}, "does not attend event 1, but"),
    ("respond", {"event_id": 1, "person": "ATTENDEE", "response": "maybe"}, "'accepted', 'tentative'"),
    ("query", {"sql": "DELETE FROM events"}, "sql: not authorized. Write one SELECT"),
    ("query", {}, "sql\n  Missing required argument"),
    ("paint", {}, "Unknown tool: 'paint'"),
]  # fmt: skip


@pytest.mark.parametrize(("tool", "arguments", "message"), ERRORS)
def test_an_error_of_a_tool_names_the_field_and_changes_nothing(url, tool, arguments, message):
    with CalendarEnv(url) as env:
        env.reset(seed=1, level=2)
        before = all_events(env)
        first = data(env, "get_event", event_id=1)
        people = {row["person"] for row in data(env, "list_people")}
        names = {
            "OWN": first["calendar"],
            "ATTENDEE": first["calendar"].partition("/")[0],
            "ABSENT": min(people - first["attendees"].keys()),
        }
        given = {field: names.get(value, value) if isinstance(value, str) else value
                 for field, value in arguments.items()}  # fmt: skip

        assert message in problem(env, tool, **given)
        assert all_events(env) == before
        assert env.state().reward is None


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"kind": "paint"}, "kind='paint': expected one of any, schedule_meeting"),
        ({"level": 4}, "level=4: expected a whole number from 1 to 3"),
        ({"level": True}, "level=True"),
        ({"max_steps": 0}, "max_steps=0: expected a whole number from 1 to 1000"),
        ({"size": 1}, "reset takes seed, episode_id, kind, level, max_steps; got size"),
    ],
)
def test_a_wrong_reset_is_an_error_that_names_the_field_and_the_episode_goes_on(url, keywords, message):
    with CalendarEnv(url) as env:
        env.reset(seed=1)
        before = env.state()
        with pytest.raises(EnvironmentFault, match=message):
            env.reset(**keywords)

        assert env.state() == before
        assert data(env, "list_people")


def test_the_derived_text_shows_a_row_for_each_event_and_random_replies_call_tools(url):
    with CalendarEnv(url) as env:
        first = env.reset(seed=1, level=2).observation
        with MCPToolClient(url) as agent:
            tools = agent.list_tools()
        text = DerivedText(CallToolAction, CalendarObservation, "", tools)
        assert text.describe(first) == first.task
        result = call(env, "list_events", start="2026-01-01", end="2028-12-31")
        rows = text.describe(result.observation).split("\n")
        assert len(rows) == len(result.observation.result["data"])
        assert rows[0].startswith("event_id ")
        replies = [text.random_reply(first, Random(seed))[0] for seed in range(40)]
        for reply in replies:
            env.step(text.parse(reply, first))
            if env.state().reward is not None:
                break
        assert env.state().step_count > 1


def test_the_measured_player_knows_the_solution_of_each_seed():
    assert solution(1, 5)[-1].tool_name == "finish"
    assert solution(1, 5) == solution(1, 5)
