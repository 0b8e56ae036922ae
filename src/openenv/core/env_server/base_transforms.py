"""Transforms that hold for any environment."""

from openenv.core.env_server.interfaces import ObsT, Transform
from openenv.core.env_server.types import Observation as Observation


class CompositeTransform(Transform[ObsT]):
    """Several transforms, one after the other."""

    def __init__(self, transforms: list[Transform[ObsT]]) -> None:
        """transforms: in the order in which they are applied. None at all changes nothing."""
        self.transforms = transforms

    def __call__(self, observation: ObsT) -> ObsT:
        """What the last transform makes of it."""
        for transform in self.transforms:
            observation = transform(observation)
        return observation


class NullTransform(Transform[ObsT]):
    """Leaves observations as they are."""

    def __call__(self, observation: ObsT) -> ObsT:
        """The same observation."""
        return observation
