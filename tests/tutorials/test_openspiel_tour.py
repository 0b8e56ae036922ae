"""The tour of environments (OpenSpiel's games, four policies, an environment of one's own) runs cell by cell."""

import re
from pathlib import Path

import pytest

from tests.integrations_table import Record
from tests.tutorials.cells import cells_of
from tests.tutorials.named import INDENTATIONS, LeftOut, Plan, Replaced, Supplied
from tests.tutorials.reading import Reading, read, reading, tutorial

pytestmark = pytest.mark.process


def a_number_is_guessed(reader: Reading) -> None:
    guesses = re.findall(r"Guess #(\d): (\d+)", reader.printed)
    assert [int(number) for number, _ in guesses] == list(range(1, len(guesses) + 1))
    assert all(1 <= int(guess) <= 10 for _, guess in guesses)
    assert ("Correct!" in reader.printed) != ("Out of guesses" in reader.printed)


def the_same_fields_are_listed(reader: Reading) -> None:
    listed = re.compile(r"(\w+) +: \S")
    assert listed.findall(reader.printed) == listed.findall(reader.expected) != []


def the_follower_always_catches_and_the_others_do_not(reader: Reading) -> None:
    lines = re.findall(r"(Random|Always|Smart|Learning).*?([\d.]+)% \((\d+)/50\)", reader.printed)
    rates = {name: float(rate) for name, rate, _ in lines}
    assert set(rates) == {"Random", "Always", "Smart", "Learning"}
    assert list(rates.values()) == sorted(rates.values(), reverse=True)
    assert rates["Smart"] == 100.0
    assert max(rates["Random"], rates["Always"]) < 50.0 < rates["Learning"]


def the_game_of_the_server_is_catch(reader: Reading) -> None:
    assert reader.value("env.reset().observation.legal_actions") == [0, 1, 2]


def the_same_client_plays_tic_tac_toe(reader: Reading) -> None:
    assert reader.value("result.observation.legal_actions") == list(range(9))
    assert reader.value("client.step(OpenSpielAction(action_id=4)).done") is False
    assert reader.value("client.state().game_name") == "tic_tac_toe"
    reader.run("client.close()")


def messages_are_typed(reader: Reading) -> None:
    assert reader.value("YourAction(action_value=3).action_value") == 3
    assert reader.value("[f.name for f in fields(YourState)]") == ["episode_id", "step_count"]


def the_environment_can_be_made(reader: Reading) -> None:
    assert reader.value("isinstance(YourEnvironment(), Environment)") is True


def the_client_has_its_own_wire_format(reader: Reading) -> None:
    payload = "YourEnv(base_url='http://localhost:8000')._step_payload(YourAction(action_value=3))"
    assert reader.value(payload) == {"action_value": 3}


def the_application_serves_the_environment(reader: Reading) -> None:
    reader.run("from fastapi.testclient import TestClient")
    assert reader.value("TestClient(app).get('/health').json()['status']") == "healthy"
    paths = reader.value("list(TestClient(app).get('/openapi.json').json()['paths'])")
    assert {"/reset", "/step", "/state"} <= set(paths)


PLAN = Plan(
    left_out=(
        LeftOut(digest="5c838c6e33d9", shows="the loop in five lines", reason="pseudo code: it names no environment"),
        LeftOut(digest="cab06ddbb93e", shows="the verbs and their routes", reason="a fragment: an argument is `...`"),
        LeftOut(digest="94ffd10cc734", shows="a Dockerfile", reason="downloads an image and packages"),
    ),
    replaced=(Replaced(phrase="8000", by="{port:8000}", reason="the port may be in use"),),
    supplied=(
        Supplied(
            phrase="evaluate_policies(client",
            code="from tests.tutorials.supplied import catch_server, checkout, run_episode, stop\n"
            "work_dir = checkout()\n"
            "server_process = catch_server(work_dir, {port:8000})\n"
            "client = OpenSpielEnv(base_url='http://localhost:{port:8000}')",
            reason="the stored text has lost the cells that start the server, connect, and define run_episode",
        ),
        Supplied(
            phrase="server_process = subprocess.Popen(",
            code="import os\nimport tests.tutorials.supplied as subprocess\n"
            "client.close()\nenv.close()\nstop(server_process)",
            reason="its first comment asks to stop the server; '... rest of config' has the wait for the next one",
        ),
        Supplied(
            phrase="class YourAction(Action)",
            code="from typing import List\nstop(server_process)",
            reason="the cell uses List without its import, and no cell after it uses the server",
        ),
        Supplied(
            phrase="from .your_environment import",
            code="from tests.tutorials.supplied import become_server_module\nbecome_server_module(globals())",
            reason="the cell is the file server/app.py of a package",
        ),
    ),
    other_output={
        "6f287fc5292e": "its numbers are random",
        "1863e929b109": "types are written as this Python does: list[int], not List[int]",
        "e74a2aeb78d0": "types are written as this Python does",
    },
    checks={
        "fields(OpenSpielState)": the_same_fields_are_listed,
        "Importing Real OpenSpiel": the_same_fields_are_listed,
        "target = random.randint": a_number_is_guessed,
        "evaluate_policies(client": the_follower_always_catches_and_the_others_do_not,
        "# We just used Catch": the_game_of_the_server_is_catch,
        "server_process = subprocess.Popen(": the_same_client_plays_tic_tac_toe,
        "class YourAction(Action)": messages_are_typed,
        "class YourEnvironment(Environment)": the_environment_can_be_made,
        "class YourEnv(HTTPEnvClient": the_client_has_its_own_wire_format,
        "create_fastapi_app(env)": the_application_serves_the_environment,
    },
)


@pytest.mark.integration("tutorials", "every cell of the tour of environments", package="nbclient")
def test_every_cell_runs(tmp_path: Path, record_property: Record) -> None:
    path = tutorial("002")
    with reading(tmp_path) as reader:
        read(path, PLAN, reader)
    record_property("figure", f"{len(cells_of(path, INDENTATIONS)) - len(PLAN.left_out)} cells")
