"""The page that an environment's author has built with Gradio for the published package, beside ours."""

import importlib.util
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from fastapi import FastAPI

from openenv.core.env_server.runner.env_spec import EnvSpec
from openenv.core.env_server.types import Action
from openenv.schema.message_schema import message_schema
from openenv.web.forms import Field, fields_of
from openenv.web.published.descriptions import get_quick_start_markdown
from openenv.web.published.interface_manager import WebInterfaceManager

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class GradioTab:
    """The published parameters of `create_app` about Gradio."""

    builder: Callable[..., Any]
    """Returns the `gradio.Blocks` for a manager of one environment, which all visitors of the tab share."""
    name: str
    is_primary: bool
    """Whether `/` leads to it in place of the page."""
    title: str | None
    path: str = "/web/custom"

    @classmethod
    def of(cls, builder: Callable[..., Any] | None, name: str, is_primary: bool, title: str | None) -> Self | None:
        """The tab of a builder, or None without one."""
        return None if builder is None else cls(builder=builder, name=name, is_primary=is_primary, title=title)

    def add_to(self, app: FastAPI, spec: EnvSpec) -> bool:
        """Mount the tab. Returns whether Gradio is installed; if it is not, a warning says so.

        Raises TypeError for a builder that returns no Blocks.
        """
        if importlib.util.find_spec("gradio") is None:
            log.warning("%s: gradio_builder needs Gradio: pip install gradio. /web has this package's page", spec.name)
            return False
        import gradio  # takes seconds, and only authors that have written for it need it

        env = spec.new_environment()
        metadata = env.get_metadata()
        title = self.title or metadata.name
        blocks = self.builder(
            WebInterfaceManager(env, spec.action_cls, spec.observation_cls, metadata),
            action_fields(spec.action_cls),
            metadata,
            "tokens" in spec.action_cls.model_fields,
            title,
            get_quick_start_markdown(metadata, spec.action_cls, spec.observation_cls),
        )
        if not isinstance(blocks, gradio.Blocks):
            raise TypeError(f"gradio_builder returned {type(blocks).__name__}: return gradio.Blocks")
        blocks.title = title
        gradio.mount_gradio_app(app, blocks, path=self.path)
        return True


_PUBLISHED_KINDS = {"choice": "select", "integer": "number", "number": "number", "json": "text"}


def action_fields(action_cls: type[Action]) -> list[dict[str, Any]]:
    """The fields of an action as the published package describes them to a builder."""
    return [_published(field) for field in fields_of(message_schema(action_cls))]


def _published(field: Field) -> dict[str, Any]:
    kind = _PUBLISHED_KINDS.get(field.kind, "textarea" if field.is_long else "text")
    if field.choices[:1] == (("true", "yes"),):
        kind = "checkbox"
    return {
        "name": field.name,
        "type": "tensor" if "tokens" in field.name else kind,
        "required": field.is_required,
        "description": field.hint,
        "default_value": field.default or None,
        "choices": [word for _, word in field.choices] or None,
        "min_value": field.minimum,
        "max_value": field.maximum,
        "min_length": field.min_length,
        "max_length": field.max_length,
        "pattern": field.pattern,
        "placeholder": field.placeholder,
        "help_text": field.hint,
    }
