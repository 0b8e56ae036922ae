"""Text interface of the coding environment: the reply is a program."""

import re
from collections.abc import Mapping
from random import Random

from openenv.envs.coding_env.models import LONGEST_CODE, CodeAction, CodeObservation
from openenv.envs.coding_env.problems import random_program
from openenv.text.interface import TextInterface

_FENCED = re.compile(r"```(?:python|py)?(?:[^\S\n]*\n)++(.*?)```", re.DOTALL)
_LONGEST_OUTPUT = 2000
"""Characters of an output that a prompt shows: its end."""


class CodingText(TextInterface[CodeAction, CodeObservation]):
    """Shows the task, and after a program its outputs and how many tests pass."""

    def instructions(self, observation: CodeObservation) -> str:
        """How to write a reply."""
        return "Reply with a Python program. The last block between ``` and ``` is run, or else the whole reply."

    def describe(self, observation: CodeObservation) -> str:
        """The task before the first program; after one, what it wrote."""
        seen = observation
        parts = [] if seen.tests_passed or _has_run(seen) else [seen.prompt]
        for name, text in (("stdout", seen.stdout), ("stderr", seen.stderr), ("value", seen.value)):
            parts += [f"{name}:\n{text[-_LONGEST_OUTPUT:].rstrip()}"] if text else []
        parts += [f"stopped: {seen.stopped}"] if seen.stopped else []
        if _has_run(seen) and seen.tests_total:
            parts.append(f"{seen.tests_passed} of {seen.tests_total} tests pass.")
        return "\n".join(part for part in parts if part) or "Write a program."

    def replies(self, observation: CodeObservation) -> Mapping[str, CodeAction]:
        """None can be listed."""
        return {}

    def parse(self, reply: str, observation: CodeObservation) -> CodeAction | None:
        """The program in a reply. None for one that is too long."""
        blocks = _FENCED.findall(reply)
        code = blocks[-1] if blocks else reply.strip()
        return CodeAction(code=code) if len(code) <= LONGEST_CODE else None

    def problem(self, reply: str, observation: CodeObservation) -> str:
        """That a program is too long; nothing else is wrong with a reply."""
        is_right = self.parse(reply, observation) is not None
        return "" if is_right else f"the program is longer than {LONGEST_CODE} characters."

    def random_reply(self, observation: CodeObservation, rng: Random) -> tuple[str, CodeAction]:
        """The program of a task that may be another one."""
        code = random_program(rng)
        return code, CodeAction(code=code)


def _has_run(seen: CodeObservation) -> bool:
    return bool(seen.metadata.get("step"))
