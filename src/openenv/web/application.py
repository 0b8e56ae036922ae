"""The application of an environment with its pages."""

from fastapi import FastAPI

from openenv.core.env_server.config import ServerConfig
from openenv.core.env_server.http.routes import environment_app
from openenv.core.env_server.runner.env_spec import EnvSpec
from openenv.web.gradio_tab import GradioTab
from openenv.web.routes import add_web_pages, page_is_enabled, tab_is_enabled


def app_of(spec: EnvSpec, config: ServerConfig, tab: GradioTab | None = None) -> FastAPI:
    """The application of an environment, for any server. ENABLE_WEB_INTERFACE=false leaves its pages out.

    tab: the author's own page, which is added where that variable is true.
    """
    if tab_is_enabled():
        return app_with_pages(spec, config, tab)
    app = environment_app(spec, config)
    if page_is_enabled():
        add_web_pages(app, spec, leads_to="/web")
    return app


def app_with_pages(spec: EnvSpec, config: ServerConfig, tab: GradioTab | None) -> FastAPI:
    """`app_of` with its pages, whatever ENABLE_WEB_INTERFACE says."""
    app = environment_app(spec, config)
    if tab is not None and tab.add_to(app, spec):
        add_web_pages(app, spec, leads_to=tab.path if tab.is_primary else "/web", tabs=[(tab.name, "custom/")])
    else:
        add_web_pages(app, spec, leads_to="/web")
    return app
