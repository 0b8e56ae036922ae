"""Text interface of the reasoning-gym environment: the question is the prompt, and the reply is the answer."""

from random import Random

from openenv.core.env_server.types import Action, Observation
from openenv.envs.reasoning_gym_env.models import LONGEST_ANSWER, ReasoningGymAction
from openenv.text.derived import DerivedText
from openenv.text.reading import final_answer


class ReasoningGymText(DerivedText):
    """Shows the question alone. What a reply marks as its answer, as by `<answer>`, is it, else the whole reply."""

    history = "latest"

    def instructions(self, observation: Observation) -> str:
        """How to write a reply."""
        return (
            "Solve the task. Reply with the answer alone. Or think first, and write the answer between <answer> and "
            "</answer>."
        )

    def describe(self, observation: Observation) -> str:
        """The question; the reference answer once it is known."""
        fields = dict(observation)
        reference = fields["reference_answer"]
        return str(fields["question"]) if reference is None else f"A right answer: {reference}"

    def parse(self, reply: str, observation: Observation) -> Action | None:
        """The answer in a reply: the last one that is marked, else all of it. None for one that is too long."""
        answer = final_answer(reply, loose=False)
        return ReasoningGymAction(answer=answer) if len(answer) <= LONGEST_ANSWER else None

    def problem(self, reply: str, observation: Observation) -> str:
        """That an answer is too long; nothing else is wrong with a reply."""
        is_right = self.parse(reply, observation) is not None
        return "" if is_right else f"the answer is longer than {LONGEST_ANSWER} characters."

    def random_reply(self, observation: Observation, rng: Random) -> tuple[str, Action]:
        """One or two words of the question."""
        words = str(vars(observation)["question"]).split()
        reply = " ".join(rng.sample(words, min(len(words), rng.randint(1, 2))))[:LONGEST_ANSWER]
        return reply, ReasoningGymAction(answer=reply)
