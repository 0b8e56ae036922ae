"""A generator in another process of the cluster."""

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ray.exceptions import RayActorError

from openenv.core.errors import NotReady, OpenEnvError
from openenv.rl.algorithm.segment import Segment
from openenv.rl.generators.base import BaseGenerator
from openenv.rl.models.prompt_tokens import TokenIds
from openenv.text.constraints import ReplyConstraint

if TYPE_CHECKING:
    from openenv.rl.models.chat import Chat
    from openenv.rl.models.images import Images

_LIMIT_S = 3600.0  # with the batches of other parts that wait there


class VllmServer(NamedTuple):
    """Where a generator's vLLM answers."""

    url: str
    model: str
    """The name under which it has the weights that were loaded last."""


class GeneratorGone(OpenEnvError):
    """The generator's process has ended, or has begun again without its weights."""


class Drawn(random.Random):
    """Random numbers that another process has drawn."""

    def __init__(self, numbers: Sequence[float]) -> None:
        super().__init__(0)
        self._numbers = numbers
        self.used = 0
        """How many were taken."""

    def random(self) -> float:
        """The next one."""
        self.used += 1
        return self._numbers[self.used - 1]


class RemoteGenerator(BaseGenerator):
    """Sends batches to a `GeneratorActor`, each whole, so that its numbers do not depend on what others ask.

    It is given the random numbers of each reply, as many as the reply may have tokens.
    """

    def __init__(self, actor: Any, chat: "Chat", *, max_new_tokens: int, opponents: int | None = None) -> None:
        """opponents: asks those that follow every so many steps; None: the trained policy."""
        super().__init__(chat, max_new_tokens=max_new_tokens, store=None, temperature=1.0)
        self._actor = actor
        self._opponents = opponents

    def generate(
        self,
        prompts: Sequence[TokenIds],
        streams: Sequence[random.Random],
        images: "Sequence[Images]" = (),
        constraints: Sequence[ReplyConstraint | None] = (),
    ) -> list[Segment]:
        """As `BaseGenerator.generate`."""
        states = [stream.getstate() for stream in streams]
        numbers = [[stream.random() for _ in range(self.max_new_tokens)] for stream in streams]
        answer = self._actor.generate.remote(
            self.policy_version, prompts, numbers, images, constraints, self._opponents
        )
        try:
            answered: tuple[list[Segment], list[int]] | None = answer.future().result(_LIMIT_S)
        except RayActorError as error:
            raise GeneratorGone(str(error)) from None
        except TimeoutError:
            raise NotReady(f"a generator did not answer within {_LIMIT_S:.0f} s") from None
        if answered is None:
            raise GeneratorGone(f"it does not have version {self.policy_version}")
        segments, used = answered
        for stream, state, count in zip(streams, states, used, strict=True):
            stream.setstate(state)
            for _ in range(count):
                stream.random()
        return segments
