"""Text interface of the DeepMind Control Suite: the numbers of each part, and the controls as a row of numbers."""

from typing import ClassVar

from openenv.core.env_server.types import Observation
from openenv.envs.space_text import SpaceText, with_pixels
from openenv.text.content import Content
from openenv.text.description import value_text


class DMControlText(SpaceText):
    """Describes any task from the observation alone."""

    history = "latest"
    action_field: ClassVar[str] = "values"

    def instructions(self, observation: Observation) -> str:
        """The task, and how to write a reply."""
        domain, task = (str(observation.metadata[name]).replace("_", " ") for name in ("domain_name", "task_name"))
        rules = f"Control the {domain}. The task is: {task}. Each line of a message is a measurement."
        return f"{rules} {self.reply_instructions(observation)}"

    def describe(self, observation: Observation) -> Content:
        """The numbers of each part, in three digits, then the rendered frame."""
        fields = vars(observation)
        parts = [f"{name}: {value_text(numbers)}" for name, numbers in fields["observations"].items()]
        return with_pixels("\n".join(parts), fields["pixels"])
