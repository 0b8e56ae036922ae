"""Keeps a conversation. A transform scores it."""

from openenv.core.env_server.interfaces import Environment, Message, ModelTokenizer, Transform

from ..models import ClerkAction, ClerkObservation, ClerkState


class Polite(Transform):
    """1 for a conversation in which the user thanks."""

    def __call__(self, observation: ClerkObservation) -> ClerkObservation:
        observation.reward = float(any("thanks" in message["content"] for message in observation.messages))
        return observation


class ClerkEnvironment(Environment):
    """A conversation that has no end."""

    def __init__(self, tokenizer: ModelTokenizer, system_prompt: str | None = None, transform: Transform | None = None):
        super().__init__(transform=transform)
        self.tokenizer = tokenizer
        self.system_prompt = system_prompt
        self._state = ClerkState()

    def reset(self) -> ClerkObservation:
        self._state.history_messages, self._state.history_tokens = [], []
        if self.system_prompt:
            message: Message = {"role": "system", "content": self.system_prompt}
            self._state.history_messages = [message]
            self._state.history_tokens = [self.tokenizer.apply_chat_template(conversation=[message])]
        return self._observation()

    def step(self, action: ClerkAction) -> ClerkObservation:  # type: ignore[override]
        self._state.history_tokens.append(action.tokens)
        self._state.history_messages.append(Message(role="user", content=self.tokenizer.decode(action.tokens)))
        return self._observation()

    def _observation(self) -> ClerkObservation:
        flat = [token for tokens in self._state.history_tokens for token in tokens]
        return self._apply_transform(ClerkObservation(messages=self._state.history_messages.copy(), tokens=flat))

    @property
    def state(self) -> ClerkState:
        return self._state
