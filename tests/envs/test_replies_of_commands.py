"""Text interfaces whose replies are texts: what they read of a whole reply, and of one that was cut off."""

import pytest

from openenv.envs.coding_env.models import CodeAction, CodeObservation
from openenv.envs.coding_env.text import CodingText
from openenv.envs.echo_env.models import EchoAction, EchoObservation
from openenv.envs.echo_env.text import EchoText
from openenv.envs.git_env.models import GitAction, GitObservation
from openenv.envs.git_env.text import GitText

SEEN = GitObservation.model_construct()


@pytest.mark.parametrize("reply", ["git status", "`git status`", "```\ngit status\n```", "```bash\ngit status\n```"])
def test_a_command_may_be_marked_as_code(reply: str) -> None:
    assert GitText().parse(reply, SEEN) == GitAction(command="git status")


def test_a_command_or_a_program_that_was_cut_off_is_none() -> None:
    program = CodeObservation.model_construct()

    assert GitText().parse_cut_off("git commit -m 'Add", SEEN) is None
    assert CodingText().parse_cut_off("```python\nprint(1", program) is None
    assert CodingText().parse_cut_off("```python\nprint(1)\n```\nThis", program) == CodeAction(code="print(1)\n")


def test_every_beginning_of_a_message_is_a_message() -> None:
    assert EchoText().parse_cut_off("hello the", EchoObservation(echoed_message="")) == EchoAction(message="hello the")
