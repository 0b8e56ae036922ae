"""Observations are shown by their fields: images, grids, numbers with their units, and texts."""

from openenv.core.env_server.types import Observation
from openenv.web.views import ObservationView, game_of
from tests.web.page_envs import DotEnvironment, Screen


class Board(Observation):
    cells: list[list[int]]
    speed: list[float]
    note: str = ""


VIEW = ObservationView(Board)


def kinds(observation):
    return [(part["name"], part["kind"]) for part in VIEW.parts(observation)]


def test_a_declared_image_and_plain_pixels_are_images():
    seen = DotEnvironment().reset().model_dump(mode="json")
    frame, column = ObservationView(Screen).parts(seen)
    pixels = [[[0, 0, 0], [255, 0, 0]] * 4] * 8
    (plain,) = VIEW.parts({"cells": pixels})

    assert frame["kind"] == plain["kind"] == "image"
    assert plain["src"].startswith("data:image/png;base64,")
    assert column == {"name": "column", "kind": "number", "value": 8, "unit": "px"}


def test_what_is_declared_an_image_and_is_none_is_shown_with_the_reason():
    frame, column = ObservationView(Screen).parts({"frame": [[0.5]], "column": 1})

    assert (frame["kind"], column["kind"]) == ("text", "number")
    assert "whole numbers from 0 to 255" in frame["value"]


def test_tables_of_short_cells_are_grids_and_a_few_numbers_have_a_history_each():
    parts = VIEW.parts({"cells": [[0, 1, 0], [2, 0, 0]], "speed": [0.5, 2.0], "note": "go"})

    assert [(part["name"], part["kind"]) for part in parts] == [
        ("cells", "grid"), ("speed 0", "number"), ("speed 1", "number"), ("note", "text")
    ]  # fmt: skip
    assert parts[0]["rows"] == [["0", "1", "0"], ["2", "0", "0"]]


def test_tensors_are_folded_away_with_their_size():
    tensor = [[[0.5] * 3] * 2] * 4

    assert kinds({"speed": [0.5] * 200, "note": "go"}) == [("speed, 200 numbers", "details"), ("note", "text")]
    assert kinds({"cells": [[0] * 65] * 65}) == [("cells, 4,225 numbers", "details")]
    assert kinds({"cells": tensor}) == [("cells, 24 numbers", "details")]
    assert kinds({"cells": [[0.5, "word longer than a cell"]] * 9}) == [("cells", "text")]


def test_the_result_of_a_tool_is_shown_by_its_texts():
    result = {"content": [{"type": "text", "text": "23"}, {"type": "image", "data": ""}], "data": 23}
    text, folded = VIEW.parts({"result": result})

    assert text == {"name": "result", "kind": "text", "value": "23"}
    assert (folded["name"], folded["kind"]) == ("result as JSON", "details")


def test_what_is_played_is_named_by_the_first_source_that_does():
    assert game_of({"game_name": ""}, {"seed": 3, "env_id": "CartPole-v1"}, {"game": "other"}) == "CartPole-v1"
    assert game_of({"domain_name": "cheetah", "task_name": "run"}) == "cheetah run"
    assert game_of({"game": 3, "dataset": "a long text " * 9}, {}) == ""


def test_lines_of_one_length_are_a_board_also_in_the_metadata():
    assert kinds({"note": "x.o\n...\no.x"}) == [("note", "grid")]
    assert kinds({"note": "two words\nof a text"}) == [("note", "text")]
    assert kinds({"metadata": {"text": "ab\ncd", "level": 3}}) == [("text", "grid"), ("metadata", "details")]


def test_what_the_page_shows_elsewhere_is_left_out():
    assert kinds({"done": False, "reward": 1.0, "legal_actions": [0], "metadata": {"legal_action_names": ["a"]}}) == []


def test_a_grid_with_long_cells_and_pairs_are_texts():
    assert kinds({"cells": [["long words", "b", "c"], ["d", "e", "f"]]}) == [("cells", "text")]
    assert kinds({"cells": [[3, 1], [4, 2]]}) == [("cells", "text")]  # places
    (huge,) = VIEW.parts({"note": "a" * 30_000})
    assert huge["value"].endswith("10,000 further characters")
