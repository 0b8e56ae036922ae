"""One bad folder does not take the page of `openenv runs` down: the others are shown, and it has a problem."""

import json
import os
from pathlib import Path

import httpx
import pytest

from openenv.pages.runs import runs_app
from tests.pages.run_files import make_run

DEEP = "[" * 100_000
BAD = {
    "deep metrics": ("metrics.jsonl", f"{DEEP}\n"),
    "deep results": ("results.json", DEEP),
    "a deep step": ("metrics.jsonl", '{"step":' + "[" * 500 + "]" * 500 + "}\n"),
    "metrics that are no objects": ("metrics.jsonl", "[1]\n"),
    "half a surrogate pair": ("results.json", r'[{"\ud800": 1}]'),
    "results that are no list": ("results.json", "7"),
    "an error of bytes": ("error.txt", "\udcff"),
    "settings that are no object": ("config.json", "[[]]"),
}


@pytest.fixture
def http(serving, tmp_path):
    """The page of a folder with a sound run."""
    make_run(tmp_path, "sound")
    with httpx.Client(base_url=f"{serving(runs_app(tmp_path))}/web", timeout=20) as client:
        yield client


def _rows(http: httpx.Client) -> dict[str, str]:
    """The problem of each run that is listed; empty for none."""
    response = http.get("/runs")
    assert response.status_code == 200
    return {row["name"]: row.get("problem", "") for row in response.json()["runs"]}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.finding("one bad run folder harms no other")
def test_a_file_that_cannot_be_read_is_the_problem_of_its_own_run(http, tmp_path: Path, name: str):
    file, text = BAD[name]
    bad = make_run(tmp_path, "bad")
    (bad / file).write_text(text, errors="surrogateescape")

    problems = _rows(http)
    assert problems["sound"] == ""
    assert problems["bad"]
    for path in ("/curve?run=bad&metric=step", "/settings?run=bad", "/transcripts?run=bad", "/report?run=bad"):
        assert http.get(path).status_code in (200, 404, 422), path


@pytest.mark.parametrize(
    "file",
    ["metrics.jsonl", "config.json", "results.json", "../.bad.lock", "error.txt", "transcripts.jsonl", "report.html"],
)
@pytest.mark.parametrize("kind", ["pipe", "device", "link"])
@pytest.mark.finding("one bad run folder harms no other")
def test_a_pipe_a_device_and_a_link_out_of_the_folder_are_not_read(http, tmp_path: Path, file: str, kind: str):
    secret = tmp_path / "secret"
    secret.write_text("confidential")
    path = make_run(tmp_path, "bad") / file
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero" if kind == "device" else secret)

    assert _rows(http)["sound"] == ""
    answers = [
        http.get(path)
        for path in ("/curve?run=bad&metric=step", "/settings?run=bad", "/transcripts?run=bad", "/report?run=bad")
    ]
    assert {answer.status_code for answer in answers} <= {200, 404, 422}
    assert not any("confidential" in answer.text for answer in answers)
    if file not in ("transcripts.jsonl", "report.html", "../.bad.lock"):
        assert "remove it" in _rows(http)["bad"] or "link out of its folder" in _rows(http)["bad"]


def test_a_link_to_a_run_of_the_same_folder_is_a_run_and_one_to_another_folder_is_not(
    http, tmp_path: Path, tmp_path_factory
):
    elsewhere = make_run(tmp_path_factory.mktemp("elsewhere"), "private")
    (tmp_path / "latest").symlink_to(tmp_path / "sound")
    (tmp_path / "private").symlink_to(elsewhere)

    assert _rows(http) == {"sound": "", "latest": ""}


def test_a_folder_whose_name_is_no_text_and_a_line_without_an_end_harm_no_other(http, tmp_path: Path):
    os.mkdir(os.fsencode(tmp_path) + b"/\xff")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff/config.json")).write_text("{}")
    with (make_run(tmp_path, "long") / "metrics.jsonl").open("wb") as file:
        file.truncate(1 << 40)

    problems = _rows(http)
    assert (problems["sound"], problems.keys()) == ("", {"sound", "long"})
    assert "a line of more than" in problems["long"]
    assert json.loads(http.get("/curve?run=sound&metric=reward").text)["points"]
