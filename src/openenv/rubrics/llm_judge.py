"""A rubric whose score a language model gives."""

import logging
import math
import re
import string
from typing import Any

from openenv.agents.llm.client import LLMClient
from openenv.core.rubric import Rubric

log = logging.getLogger(__name__)

_FIRST_NUMBER = r"((?:(?<![\w.])-)?(?:\d+\.?\d*|\.\d+))"
"""With its sign, unless the hyphen is a dash, as in `8-10`."""
_PLACEHOLDERS = ("action", "observation")


class LLMJudge(Rubric):
    """Prompts a language model with the action and the observation, and parses the score in its response.

    Calling it returns an awaitable:

        judge = LLMJudge("Rate this answer from 0 to 1:\\n{action.text}", OpenAIClient("http://localhost", 8000, "m"))
        score = await judge(action, observation)
    """

    def __init__(
        self,
        prompt_template: str,
        client: "LLMClient",
        *,
        score_pattern: str | None = None,
        default_score: float = 0.0,
        normalize: bool = True,
    ) -> None:
        """Set the prompt, the client and how the response is parsed.

        Args:
            prompt_template: may contain {action} and {observation}, or parts such as {action.text}; double literal
                braces.
            score_pattern: regular expression whose first group, or whole match, is the score; by default the first
                number.
            default_score: the score of a response without one.
            normalize: whether scores are limited to 0 to 1.

        Raises:
            ValueError: for another placeholder or an invalid regular expression.
        """
        super().__init__()
        self.prompt_template = self._checked_template(prompt_template)
        self._client = client
        self._score_pattern = _compiled(score_pattern or _FIRST_NUMBER)
        self.default_score = default_score
        self.normalize = normalize

    async def forward(self, action: Any, observation: Any) -> float:
        """The model's score. Raises the client's errors."""
        return self._parse_score(await self._client.complete(self._render_prompt(action, observation)))

    def _render_prompt(self, action: Any, observation: Any) -> str:
        """The prompt. Override it to fill in the template differently."""
        return self.prompt_template.format(action=action, observation=observation)

    def _parse_score(self, response: str) -> float:
        """The score in the model's response. Override it to parse another format."""
        match = self._score_pattern.search(response)
        score = _finite((match.group(1) if match.lastindex else match.group(0)) if match else None)
        if score is None:
            log.warning(
                "no score in the judge's response %r: default_score=%s is used", response[:200], self.default_score
            )
            return self.default_score
        return max(0.0, min(1.0, score)) if self.normalize else score

    def state_dict(self) -> dict[str, Any]:
        """The configuration, without the client."""
        return {
            "prompt_template": self.prompt_template,
            "score_pattern": self._score_pattern.pattern,
            "default_score": self.default_score,
            "normalize": self.normalize,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a configuration. Raises ValueError like the constructor."""
        template = self._checked_template(state.get("prompt_template", self.prompt_template))
        self._score_pattern = _compiled(state.get("score_pattern", self._score_pattern.pattern))
        self.prompt_template = template
        self.default_score = state.get("default_score", self.default_score)
        self.normalize = state.get("normalize", self.normalize)

    def _checked_template(self, template: str) -> str:
        if type(self)._render_prompt is not LLMJudge._render_prompt:
            return template  # a subclass has rules of its own
        try:
            fields = [field for _, field, _, _ in string.Formatter().parse(template) if field is not None]
        except ValueError as error:
            raise ValueError(
                f"prompt_template={template!r}: {error}. Double a brace that is meant literally."
            ) from None
        for field in fields:
            if re.split(r"[.\[]", field)[0] not in _PLACEHOLDERS:
                raise ValueError(
                    f"prompt_template contains {{{field}}}: only {{action}} and {{observation}} are filled in. "
                    "Double the braces that are meant literally."
                )
        return template


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"score_pattern={pattern!r} is not a regular expression: {error}") from None


def _finite(text: str | None) -> float | None:
    """The finite number in `text`, or None."""
    try:
        score = float(text or "")
    except ValueError:
        return None
    return score if math.isfinite(score) else None
