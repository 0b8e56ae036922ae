"""The task API: a server lists the splits and tasks of an environment without opening a session."""

import time

import httpx
import pytest

from openenv.core import Environment, Observation, State
from openenv.core.env_server import ServerConfig, create_app
from openenv.core.generic_client import GenericEnvClient
from tests.conftest import running

TASKS = {"train": [{"id": "t0", "level": 1}, {"id": "t1", "level": 2}], "dev": []}


class Sums(Environment):
    """Draws its episodes from a data set, and remembers what it was asked."""

    last_split = None

    def reset(self, seed=None, episode_id=None, **kwargs):
        return Observation()

    def step(self, action, timeout_s=None, **kwargs):
        return Observation()

    @property
    def state(self):
        return State(asked=self.last_split)

    def list_splits(self):
        return ["train", {"name": "dev", "type": "validation"}, "hard"]

    async def list_tasks(self, split):
        return TASKS[split]

    def num_tasks(self, split):
        self.last_split = split
        if split == "never":
            time.sleep(60)
        return len(TASKS[split])

    def get_task(self, split, index):
        return TASKS[split][index]


@pytest.fixture(params=["inline", "thread", "process"], scope="module")
def url(module_serving, request):
    return module_serving(create_app(Sums, env_name="sums", config=ServerConfig(execution=request.param)))


def test_the_environment_is_listed_with_its_splits(url):
    assert httpx.get(f"{url}/list_environments").json() == ["sums"]
    assert httpx.get(f"{url}/Sums/splits").json() == [
        {"name": "train", "type": "train"},
        {"name": "dev", "type": "validation"},
        {"name": "hard", "type": "validation"},
    ]


def test_tasks_are_counted_and_listed(url):
    assert httpx.post(f"{url}/sums/tasks", json={"split": "train"}).json() == {
        "tasks": TASKS["train"],
        "env_name": "sums",
    }
    assert httpx.post(f"{url}/sums/num_tasks", json={"split": "train"}).json() == {"num_tasks": 2}
    assert httpx.post(f"{url}/sums/task", json={"split": "train", "index": 1}).json() == {"task": TASKS["train"][1]}
    assert httpx.get(f"{url}/ready").json()["sessions"] == 0


@pytest.mark.parametrize(
    ("route", "body", "status", "detail"),
    [
        ("sums/task", {"split": "train", "index": 9}, 400, "Invalid task index"),
        ("sums/num_tasks", {"split": "nope"}, 400, "'nope'"),
        ("sums/task_range", {"split": "train"}, 501, "get_task_range is not supported for this environment"),
        ("other/tasks", {"split": "train"}, 404, "unknown environment 'other'"),
    ],
)
def test_an_unknown_task_split_or_environment_is_refused_with_the_reason(url, route, body, status, detail):
    response = httpx.post(f"{url}/{route}", json=body)
    assert (response.status_code, response.json()["detail"]) == (status, detail)


@pytest.mark.finding("questions about tasks run in no client's environment")
@pytest.mark.parametrize("execution", ["thread", "process"])
def test_questions_about_tasks_touch_no_clients_episode_and_take_no_slot(serving, execution):
    config = ServerConfig(execution=execution, max_sessions=1, step_timeout_s=0.5)
    url = serving(create_app(Sums, env_name="sums", config=config))
    with GenericEnvClient(url) as env:
        env.reset()
        assert httpx.post(f"{url}/sums/num_tasks", json={"split": "train"}).json() == {"num_tasks": 2}
        assert httpx.post(f"{url}/sums/num_tasks", json={"split": "never"}).status_code == 504
        assert httpx.post(f"{url}/sums/num_tasks", json={"split": "dev"}).json() == {"num_tasks": 0}
        assert httpx.get(f"{url}/ready").json()["sessions"] == 1

        env.step({})
        assert env.state()["asked"] is None


@pytest.mark.finding("questions about tasks run in no client's environment")
def test_the_environment_of_questions_is_made_once_and_ends_with_the_server():
    made, closed = [], []

    class Counted(Sums):
        def __init__(self):
            made.append(self)

        def close(self):
            closed.append(self)

    with running(create_app(Counted, env_name="sums")) as url:
        for _ in range(3):
            assert httpx.get(f"{url}/sums/splits").status_code == 200
        assert (len(made), closed) == (1, [])

    assert closed == made


def test_a_question_of_very_many_fields_gets_an_error_without_a_row_for_each(url):
    refused = httpx.post(f"{url}/sums/tasks", json={"split": "train", **{f"a{number}": 1 for number in range(2000)}})

    assert (refused.status_code, refused.json()["code"]) == (422, "VALIDATION_ERROR")
    assert len(refused.json()["detail"]) == 1
    assert len(refused.content) < 5000
