"""A rubric that asks a language model for the score."""

import logging
import math
import re
import string
from typing import TYPE_CHECKING, Any

from openenv.core.rubrics.base import Rubric

if TYPE_CHECKING:
    from openenv.core.llm_client import LLMClient

log = logging.getLogger(__name__)

_FIRST_NUMBER = r"((?:(?<![\w.])-)?(?:\d+\.?\d*|\.\d+))"
"""With its sign, unless what stands before it makes the hyphen a dash, as in `8-10`."""
_PLACEHOLDERS = ("action", "observation")


class LLMJudge(Rubric):
    """The number that a language model answers when it is shown the action and the observation.

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
        """What to ask, whom, and how to read the answer.

        prompt_template: may hold {action} and {observation}, or parts as in {action.text}; a literal brace is doubled.
        score_pattern: regular expression whose first group, or whole match, is the score; by default the first number.
        default_score: the score of an answer without one. normalize: whether scores are limited to 0 to 1.
        Raises ValueError for another placeholder or a pattern that is no regular expression.
        """
        super().__init__()
        self.prompt_template = self._checked_template(prompt_template)
        self._client = client
        self._score_pattern = _compiled(score_pattern or _FIRST_NUMBER)
        self.default_score = default_score
        self.normalize = normalize

    async def forward(self, action: Any, observation: Any) -> float:
        """The model's score. Raises what the client raises when the model cannot be asked."""
        return self._parse_score(await self._client.complete(self._render_prompt(action, observation)))

    def _render_prompt(self, action: Any, observation: Any) -> str:
        """The prompt. Override it to fill in a template in another way."""
        return self.prompt_template.format(action=action, observation=observation)

    def _parse_score(self, response: str) -> float:
        """The score in the model's answer. Override it to read answers of another form."""
        match = self._score_pattern.search(response)
        score = _finite((match.group(1) if match.lastindex else match.group(0)) if match else None)
        if score is None:
            log.warning(
                "no score in the judge's answer %r: default_score=%s is used", response[:200], self.default_score
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
        """Take over a configuration. Raises ValueError as the constructor does."""
        template = self._checked_template(state.get("prompt_template", self.prompt_template))
        self._score_pattern = _compiled(state.get("score_pattern", self._score_pattern.pattern))
        self.prompt_template = template
        self.default_score = state.get("default_score", self.default_score)
        self.normalize = state.get("normalize", self.normalize)

    def _checked_template(self, template: str) -> str:
        if type(self)._render_prompt is not LLMJudge._render_prompt:
            return template  # a subclass fills it in by its own rules
        try:
            fields = [field for _, field, _, _ in string.Formatter().parse(template) if field is not None]
        except ValueError as error:
            raise ValueError(f"prompt_template={template!r}: {error}. Double a brace that is meant as text.") from None
        for field in fields:
            if re.split(r"[.\[]", field)[0] not in _PLACEHOLDERS:
                raise ValueError(
                    f"prompt_template holds {{{field}}}: only {{action}} and {{observation}} are filled in. "
                    "Double the braces that are meant as text."
                )
        return template


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"score_pattern={pattern!r} is no regular expression: {error}") from None


def _finite(text: str | None) -> float | None:
    """The number that `text` says, or None when it says none that is finite."""
    try:
        score = float(text or "")
    except ValueError:
        return None
    return score if math.isfinite(score) else None
