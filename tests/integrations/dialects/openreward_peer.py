"""An environment and a client written with openreward; runs in its own virtual environment.

serve PORT       a quiz, on its server
play URL CALLS   the client on the first training task; CALLS is a JSON list of [tool, input]. Prints what it received.
many URL FILE    the client on tasks; FILE has a JSON list of [index, calls]. Prints the rewards of each.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from openreward import OpenReward
from openreward.environments import Environment, Server, TextBlock, ToolOutput, terminal, tool
from pydantic import BaseModel

QUESTIONS = {"train": [("2 + 2", "4"), ("3 + 3", "6"), ("5 + 5", "10")], "test": [("7 + 7", "14")]}


class Sum(BaseModel, extra="forbid"):
    a: int
    b: int


class Answer(BaseModel, extra="forbid"):
    answer: str


class Quiz(Environment):
    """Answer a question; `add` helps."""

    def __init__(self, task_spec: Any, secrets: dict[str, str] | None = None) -> None:
        super().__init__(task_spec)

    @tool
    async def add(self, params: Sum) -> ToolOutput:
        """Add two numbers."""
        text = TextBlock(text=str(params.a + params.b))
        return ToolOutput(blocks=[text], reward=0.25, finished=False, metadata={"helped": True})

    @terminal
    @tool
    async def submit(self, params: Answer) -> ToolOutput:
        """Give the answer."""
        right = params.answer == self.task_spec["answer"]
        return ToolOutput(blocks=[TextBlock(text="right" if right else "wrong")], reward=float(right), finished=True)

    async def get_prompt(self) -> list[TextBlock]:
        return [TextBlock(text=self.task_spec["question"])]

    @classmethod
    def list_tasks(cls, split: str) -> list[Any]:
        return [{"question": question, "answer": answer} for question, answer in QUESTIONS[split]]

    @classmethod
    def list_splits(cls) -> list[str]:
        return list(QUESTIONS)


def play(url: str, calls: list[tuple[str, Any]]) -> None:
    """Play as a user of openreward does, and print all that came."""
    client = OpenReward(api_key="none")
    environment = client.environments.get(name="any", base_url=url)
    task = environment.list_tasks(split="train")[3]
    with environment.session(task=task) as session:
        prompt = [block.text for block in session.get_prompt()]
        tools = [tool.name for tool in session.list_tools()]
        outputs = []
        for name, arguments in calls:
            try:
                output = session.call_tool(name, arguments)
            except Exception as error:  # noqa: BLE001  border: whatever the client raises is printed
                outputs.append({"error": f"{type(error).__name__}: {error}"})
                continue
            text = "".join(block.text for block in output.blocks)
            outputs.append({"text": text, "reward": output.reward, "finished": output.finished})
    found = {
        "version": version("openreward"),
        "splits": environment.list_splits(),
        "num_tasks": environment.num_tasks(split="test"),
        "task": task.task_spec,
        "prompt": prompt,
        "tools": tools,
        "outputs": outputs,
    }
    print(json.dumps(found))


def many(url: str, episodes: list[tuple[int, list[tuple[str, Any]]]]) -> None:
    """Play episodes, and print the rewards of the calls of each."""
    environment = OpenReward(api_key="none").environments.get(name="any", base_url=url)
    tasks, found = environment.list_tasks(split="train"), []
    for index, calls in episodes:
        with environment.session(task=tasks[index]) as session:
            found.append([session.call_tool(name, arguments).reward for name, arguments in calls])
    print(json.dumps(found))


if __name__ == "__main__":
    if sys.argv[1] == "many":
        many(sys.argv[2], json.loads(Path(sys.argv[3]).read_text()))
    elif sys.argv[1] == "serve":
        Server([Quiz]).run(host="127.0.0.1", port=int(sys.argv[2]))
    else:
        play(sys.argv[2], json.loads(sys.argv[3]))
