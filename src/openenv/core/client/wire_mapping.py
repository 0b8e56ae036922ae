"""A client's typed objects as JSON of the wire, and back."""

from typing import Any, ClassVar, Generic, get_args, get_origin
from typing import TypeVar as PlainTypeVar

from pydantic import BaseModel
from typing_extensions import TypeVar

from openenv.core.client_types import StepResult
from openenv.core.env_server.types import Action, Observation, State
from openenv.core.errors import EnvironmentFault
from openenv.core.wire.client_codec import encode_body

ActT = TypeVar("ActT", default=Action)
ObsT = TypeVar("ObsT", default=Observation)
StateT = TypeVar("StateT", default=State)


class WireMapping(Generic[ActT, ObsT, StateT]):
    """The mapping follows from the type parameters; a subclass may override any of the three hooks."""

    _message_classes: ClassVar[tuple[Any, Any, Any]] = (Action, Observation, State)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for base in getattr(cls, "__orig_bases__", ()):
            if isinstance(get_origin(base), type) and issubclass(get_origin(base), WireMapping):
                given = get_args(base)
                classes = (*given, *cls._message_classes[len(given) :])
                if not any(isinstance(c, (TypeVar, PlainTypeVar)) for c in classes):
                    cls._message_classes = classes

    def _step_payload(self, action: ActT) -> dict[str, Any]:
        """The JSON object of an action. Raises TypeError for an object of another class than the client's own."""
        action_cls = self._message_classes[0]
        if not isinstance(action, BaseModel) or not isinstance(action, action_cls):
            raise TypeError(f"{type(self).__name__}.step takes {action_cls.__name__}, not {type(action).__name__}")
        return action.model_dump(mode="json")

    def _encode_action(self, action: ActT) -> bytes:
        """What `_step_payload` returns, as JSON; in one pass where no subclass overrides that."""
        action_cls = self._message_classes[0]
        if type(self)._step_payload is WireMapping._step_payload and isinstance(action, action_cls):
            body: bytes = action.__pydantic_serializer__.to_json(action)
            return body
        return encode_body(self._step_payload(action))

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[ObsT]:
        """The result in a response's data. Raises pydantic's ValidationError when the observation has other fields."""
        observation_cls = self._message_classes[1]
        reward, done = payload.get("reward"), payload.get("done", False)
        observation = observation_cls.model_validate({**payload["observation"], "reward": reward, "done": done})
        return StepResult(observation, reward, done, payload.get("metadata"))

    def _parse_state(self, payload: dict[str, Any]) -> StateT:
        """The state in a response's data."""
        state: StateT = self._message_classes[2].model_validate(payload)
        return state

    def _read_result(self, payload: dict[str, Any]) -> StepResult[ObsT]:
        """The result, with its validity. Raises EnvironmentFault when the server has sent no observation."""
        if type(payload.get("observation")) is not dict:
            raise EnvironmentFault(
                f"the server's answer has no observation, or one that is no object: {str(payload)[:80]}"
            )
        validity = payload.pop("validity", "valid")
        result = self._parse_result(payload)
        result.validity = validity
        return result
