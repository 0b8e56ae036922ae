"""The client of the clerk, with a method of its own."""

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server.interfaces import Message

from .models import ClerkAction, ClerkObservation, ClerkState


class ClerkEnv(EnvClient[ClerkAction, ClerkObservation, ClerkState]):
    """A session with the clerk."""

    def message_to_action(self, message: Message, tokenizer) -> ClerkAction:
        if not message.get("content"):
            raise ValueError("Message must contain 'content'")
        return ClerkAction(tokens=tokenizer.apply_chat_template(conversation=[message], tokenize=True))

    def _step_payload(self, action: ClerkAction) -> dict:
        tokens = action.tokens.tolist() if hasattr(action.tokens, "tolist") else list(action.tokens)
        return {"tokens": tokens, "metadata": action.metadata}

    def _parse_result(self, payload: dict) -> StepResult[ClerkObservation]:
        fields = payload.get("observation", {})
        observation = ClerkObservation(
            messages=fields.get("messages", []), tokens=fields.get("tokens", []),
            done=payload.get("done", False), reward=payload.get("reward"),
        )  # fmt: skip
        return StepResult(observation=observation, reward=observation.reward, done=observation.done)

    def _parse_state(self, payload: dict) -> ClerkState:
        return ClerkState(**payload)
