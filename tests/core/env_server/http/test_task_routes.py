"""The task API: a server lists the splits and tasks of an environment without opening a session."""

import httpx
import pytest

from openenv.core import Environment, Observation, State
from openenv.core.env_server import ServerConfig, create_app

TASKS = {"train": [{"id": "t0", "level": 1}, {"id": "t1", "level": 2}], "dev": []}


class Sums(Environment):
    """Draws its episodes from a data set."""

    def reset(self, seed=None, episode_id=None, **kwargs):
        return Observation()

    def step(self, action, timeout_s=None, **kwargs):
        return Observation()

    @property
    def state(self):
        return State()

    def list_splits(self):
        return ["train", {"name": "dev", "type": "validation"}, "hard"]

    async def list_tasks(self, split):
        return TASKS[split]

    def num_tasks(self, split):
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
