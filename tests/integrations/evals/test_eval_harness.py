"""Evaluations: the interface, and Inspect AI where it is installed (extra `evals`)."""

import re
import sys
from types import SimpleNamespace

import pytest
from pydantic import ValidationError

from openenv.installation import install_line
from openenv.integrations.evals import EvalConfig, EvalHarness, InspectAIHarness

pytestmark = pytest.mark.finding("every public name of the published package exists here")

FIELDS = {
    "harness_name": "Counts",
    "harness_version": "1",
    "library_versions": {"a": "2"},
    "dataset": "words",
    "eval_parameters": {"limit": 3},
}


class Counts(EvalHarness):
    def run(self, *, harness_version, library_versions, dataset, eval_parameters):
        return {"seen": [harness_version, library_versions, dataset, eval_parameters]}


def test_a_configuration_runs_with_its_fields_and_comes_back_with_the_scores():
    config = EvalConfig(**FIELDS)
    result = Counts().run_from_config(config)

    assert (result.config, result.scores) == (config, {"seen": ["1", {"a": "2"}, "words", {"limit": 3}]})
    assert Counts().name == "Counts"


@pytest.mark.parametrize("wrong", [{**FIELDS, "more": 1}, {key: FIELDS[key] for key in list(FIELDS)[1:]}])
def test_a_configuration_has_all_fields_and_no_others(wrong):
    with pytest.raises(ValidationError):
        EvalConfig(**wrong)


def test_a_missing_model_is_refused_with_the_remedy():
    with pytest.raises(ValueError, match=r"\['model'\] is missing: give a model"):
        InspectAIHarness().run("0.3", {}, "task", {})


def test_without_inspect_ai_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "inspect_ai", None)
    with pytest.raises(ImportError, match=re.escape(install_line("evals"))):
        InspectAIHarness().run("0.3", {}, "task", {"model": "mockllm/model"})


TASK = """
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import includes, match

@task
def sums(target="output"):
    return Task([Sample("1+1", target=target), Sample("2+2", target="four")], scorer=[includes(), match()])
"""

FAILS = """
from inspect_ai.solver import solver

@solver
def fails():
    async def solve(state, generate):
        raise OSError("no memory left")

    return solve
"""


@pytest.fixture
def task_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INSPECT_DISPLAY", "none")
    pytest.importorskip("inspect_ai", reason="inspect-ai needs Python 3.11.5")
    # its table of tokens comes from a server
    monkeypatch.setattr("tiktoken.get_encoding", lambda name: SimpleNamespace(encode=lambda text, **_: text.split()))
    (tmp_path / "sums.py").write_text(TASK)
    return tmp_path / "sums.py"


@pytest.mark.process
@pytest.mark.parametrize(
    ("parameters", "accuracy"),
    [({}, 0.5), ({"max_samples": 1}, 1.0), ({"task_args": {"target": "no"}}, 0.0), ({"epochs": 2}, 0.5)],
)
def test_inspect_ai_runs_a_task_and_its_metrics_are_the_scores(task_file, parameters, accuracy):
    harness = InspectAIHarness(log_dir=str(task_file.parent / "logs"))
    scores = harness.run("0.3", {}, task_file.name, {"model": "mockllm/model", **parameters})

    assert (scores["includes/accuracy"], scores["match/accuracy"], scores["accuracy"]) == (accuracy, 0.0, 0.0)
    assert len(list((task_file.parent / "logs").iterdir())) == 1


@pytest.mark.process
def test_a_scorer_replaces_that_of_the_task(task_file):
    from inspect_ai import Task
    from inspect_ai.dataset import Sample
    from inspect_ai.scorer import exact, includes

    task = Task([Sample("1+1", target="output")], scorer=includes())
    parameters = {"model": "mockllm/model", "task": task}

    assert InspectAIHarness().run("0.3", {}, "sums", parameters)["accuracy"] == 1.0
    assert InspectAIHarness().run("0.3", {}, "sums", {**parameters, "scorer": [exact()]})["mean"] == 0.0
    with pytest.raises(ValueError, match=r"the task is 'sums.py': import the task's function"):
        InspectAIHarness().run("0.3", {}, "sums.py", {"model": "mockllm/model", "scorer": [exact()]})


@pytest.mark.process
def test_a_task_without_a_scorer_has_no_scores_and_an_unknown_parameter_no_effect(task_file):
    task_file.write_text(TASK.replace(", scorer=[includes(), match()]", ""))
    with pytest.warns(RuntimeWarning, match="has temprature, without effect: it takes model"):
        scores = InspectAIHarness().run("0.3", {}, task_file.name, {"model": "mockllm/model", "temprature": 1})

    assert scores == {}


@pytest.mark.process
def test_an_evaluation_that_fails_is_an_error_with_its_reason(task_file):
    task_file.write_text(TASK.replace("scorer=[includes(), match()]", "solver=fails(), scorer=includes()") + FAILS)
    with pytest.raises(RuntimeError, match=r"of sums.py ended as 'error': .*no memory left"):
        InspectAIHarness().run("0.3", {}, task_file.name, {"model": "mockllm/model"})
