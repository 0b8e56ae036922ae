"""How the echo environment reads to a language model: whatever the model replies is said."""

from collections.abc import Mapping

from openenv.core.text import TextInterface
from openenv.envs.echo_env.models import EchoAction, EchoObservation


class EchoText(TextInterface[EchoAction, EchoObservation]):
    """Every reply is a legal action; longer messages earn more."""

    history = "latest"

    def instructions(self, observation: EchoObservation) -> str:
        """The rules of the echo."""
        return "Say something. Each character of your message earns a tenth of a point."

    def describe(self, observation: EchoObservation) -> str:
        """What was heard last."""
        return f"heard {observation.echoed_message}"

    def replies(self, observation: EchoObservation) -> Mapping[str, EchoAction]:
        """A few of the endlessly many replies, so that random play has something to say."""
        return {word: EchoAction(message=word) for word in ("hi", "hello", "hello there")}

    def parse(self, reply: str, observation: EchoObservation) -> EchoAction:
        """The reply itself, said."""
        return EchoAction(message=reply)
