"""Evaluations by Inspect AI (https://inspect.aisi.org.uk), which the extra `evals` installs."""

import warnings
from typing import Any

from openenv.installation import install_line
from openenv.integrations.evals.base import EvalHarness

_PASSED_ON = (
    "model_base_url", "model_args", "task_args", "max_samples", "max_connections", "temperature", "max_tokens",
    "epochs", "solver",
)  # fmt: skip
_TAKES = ("model", "task", "scorer", *_PASSED_ON)


class InspectAIHarness(EvalHarness):
    """Runs a task of Inspect AI.

    Example:
        InspectAIHarness().run("0.3", {}, "my_task.py", {"model": "openai/gpt-4o", "max_samples": 10})

    eval_parameters: `model` is required. `task` is a task, its file or its name, and `dataset` without it. `scorer`
    replaces the scorer of a task that is given as an object. Optional are task_args, model_args, model_base_url,
    solver, epochs, max_samples, max_connections, temperature and max_tokens, with Inspect AI's meaning and defaults,
    but for max_samples: it is the number of samples to evaluate.
    """

    def __init__(self, *, log_dir: str | None = None) -> None:
        """log_dir: the folder of Inspect AI's logs; None: where it puts them by itself."""
        self.log_dir = log_dir

    def run(
        self, harness_version: str, library_versions: dict[str, str], dataset: str, eval_parameters: dict[str, Any]
    ) -> dict[str, Any]:
        """The metrics of the task by name.

        With more than one scorer, each metric is also under the scorer's name, as in `match/accuracy`; under its own
        name is that of the last scorer. A parameter with another name has no effect and gives a RuntimeWarning. Raises
        ImportError where Inspect AI is not installed, ValueError for a missing model and for a scorer without a task
        object, RuntimeError when the evaluation fails.
        """
        model, unknown = eval_parameters.get("model"), eval_parameters.keys() - set(_TAKES)
        if not model:
            raise ValueError("eval_parameters['model'] is missing: give a model, such as 'openai/gpt-4o'")
        if unknown:
            text = f"eval_parameters has {', '.join(sorted(unknown))}, without effect: it takes {', '.join(_TAKES)}"
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        try:
            from inspect_ai import Task, task_with  # the extra `evals`
            from inspect_ai import eval as evaluate
        except ImportError as error:
            raise ImportError(
                f"inspect-ai is not installed: {install_line('evals')}, with Python 3.11.5 or newer"
            ) from error
        task: Any = eval_parameters.get("task") or dataset
        if eval_parameters.get("scorer") is not None:
            if not isinstance(task, Task):
                raise ValueError(
                    f"eval_parameters['scorer'] replaces the scorer of a Task object, and the task is {task!r}: import "
                    "the task's function and give what it returns as eval_parameters['task']"
                )
            task = task_with(task, scorer=eval_parameters["scorer"])
        given = {name: eval_parameters[name] for name in _PASSED_ON if eval_parameters.get(name) is not None}
        if "max_samples" in given:
            given["limit"] = given["max_samples"]  # Inspect AI's own max_samples counts those that run at one time
        logs = evaluate(task, model=model, log_dir=self.log_dir, **given)
        if not logs:
            raise RuntimeError(f"the evaluation of {dataset} has no log: is {task!r} a task?")
        log = logs[0]
        if log.status != "success":
            raise RuntimeError(
                f"the evaluation of {dataset} ended as {log.status!r}: {getattr(log.error, 'message', '')}"
            )
        return {} if log.results is None else _metrics(log.results.scores)


def _metrics(scores: Any) -> dict[str, Any]:
    metrics: dict[str, Any] = {}
    for score in scores:
        own = {name: metric.value for name, metric in score.metrics.items()}
        metrics |= own
        if len(scores) > 1:
            metrics |= {f"{score.name}/{name}": value for name, value in own.items()}
    return metrics
