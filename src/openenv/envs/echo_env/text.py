"""Text interface of the echo environment: a reply of a language model is the message."""

from collections.abc import Mapping

from openenv.envs.echo_env.models import EchoAction, EchoObservation
from openenv.text.interface import TextInterface


class EchoText(TextInterface[EchoAction, EchoObservation]):
    """Every reply is a legal action; a longer message has a higher reward."""

    history = "latest"

    def instructions(self, observation: EchoObservation) -> str:
        """Return the rules."""
        return "Your whole reply is a message, which comes back. Each character of it earns a tenth of a point."

    def describe(self, observation: EchoObservation) -> str:
        """Return the last message."""
        return f"Received: {observation.echoed_message}"

    def replies(self, observation: EchoObservation) -> Mapping[str, EchoAction]:
        """Return three examples of the unlimited replies, for random play."""
        return {word: EchoAction(message=word) for word in ("hi", "hello", "hello there")}

    def constraint(self, observation: EchoObservation) -> None:
        """Return None: every text is a reply."""
        return

    def parse(self, reply: str, observation: EchoObservation) -> EchoAction:
        """Return the reply as the message."""
        return EchoAction(message=reply)

    def parse_cut_off(self, reply: str, observation: EchoObservation) -> EchoAction:
        """Return the reply as far as it goes: every message is legal."""
        return self.parse(reply, observation)
