"""Environments as their authors write them for verifiers: one turn, several turns, and tools."""

from typing import Any

import verifiers as vf
from datasets import Dataset


class HigherLower(vf.MultiTurnEnv):
    """Guess the answer; a wrong guess gets the direction."""

    async def env_response(self, messages: Any, state: Any, **kwargs: Any) -> Any:
        guess, answer = int(messages[-1].content), int(state["answer"])
        if guess == answer:
            state["final_env_response"] = [{"role": "user", "content": "right"}]
            return state["final_env_response"]
        return [{"role": "user", "content": "higher" if guess < answer else "lower"}]


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: the first
        b: the second
    """
    return a + b


def load_environment(kind: str = "single", system_prompt: str = "Calculate.", num_rows: int = 5) -> vf.Environment:
    """kind: single, multi or tools."""
    rows = Dataset.from_list([{"question": f"{n} + {n}", "answer": str(2 * n)} for n in range(1, num_rows + 1)])

    async def is_right(completion: Any, answer: str) -> float:
        replies = [message for message in completion if message.role == "assistant"]
        return float(str(replies[-1].content).strip() == answer)

    async def brevity(completion: Any) -> float:
        return 1.0 / len([message for message in completion if message.role == "assistant"])

    rubric = vf.Rubric(funcs=[is_right, brevity], weights=[1.0, 0.5])
    if kind == "multi":
        return HigherLower(dataset=rows, rubric=rubric, system_prompt=system_prompt, max_turns=6)
    if kind == "tools":
        return vf.ToolEnv(dataset=rows, rubric=rubric, system_prompt=system_prompt, tools=[add], max_turns=5)
    return vf.SingleTurnEnv(dataset=rows, rubric=rubric, system_prompt=system_prompt)
