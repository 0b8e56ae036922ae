"""HTML pages without a build step: templates, files of style and script, and the headers that bind a page to them."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles

FOLDER = Path(__file__).parent
_HUB = "https://huggingface.co"
"""The site that shows a Space in a frame."""


class Pages:
    """Renders the templates of a folder, which may extend `base.html` of this one. Values are escaped."""

    def __init__(self, *folders: Path, frame_ancestors: Sequence[str] = ()) -> None:
        """frame_ancestors: origins whose pages may show these pages in a frame, beside the pages' own origin."""
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader([folder / "templates" for folder in (*folders, FOLDER)]),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._headers = page_headers(frame_ancestors)

    def text(self, template: str, **values: Any) -> str:
        """The HTML of a template."""
        return self._templates.get_template(template).render(values)

    def response(self, template: str, *, status_code: int = 200, **values: Any) -> Response:
        """The response with a page."""
        return HTMLResponse(self.text(template, **values), status_code=status_code, headers=self._headers)


def page_headers(frame_ancestors: Sequence[str] = ()) -> dict[str, str]:
    """The headers of a page: it runs the scripts of its own server alone, and no other site may frame it.

    On a Space of the Hub, which is a server with the variable SPACE_ID, the Hub's site may.
    """
    ancestors = ["'self'", *frame_ancestors, *([_HUB] if os.environ.get("SPACE_ID") else [])]
    policy = {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' data:",
        "connect-src": "'self'",
        "frame-src": "'self'",
        "form-action": "'self'",
        "base-uri": "'none'",
        "frame-ancestors": " ".join(ancestors),
    }
    return {
        "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        **PRIVATE_HEADERS,
    }


PRIVATE_HEADERS = {"Referrer-Policy": "same-origin", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
"""Nothing of a page is kept or passed on."""


def assets(folder: Path = FOLDER) -> StaticFiles:
    """The application of a folder's style and scripts, which hold nothing of any environment."""
    return StaticFiles(directory=folder / "assets")
