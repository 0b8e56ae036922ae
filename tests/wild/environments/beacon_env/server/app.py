"""The application of the beacon, changed after `create_app` has made it."""

import inspect
import os

from fastapi import Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from starlette.middleware.base import BaseHTTPMiddleware

from openenv.core.env_server.http_server import create_app
from openenv.web.published.interface import load_environment_metadata

from ..models import BeaconAction, BeaconObservation
from .environment import BeaconEnvironment
from .page import build_tab, page_html

FLASHES = int(os.getenv("BEACON_FLASHES", "3"))


def _factory():
    return BeaconEnvironment(flashes=FLASHES)


_parameters = inspect.signature(create_app).parameters
_gradio = {
    "gradio_builder": build_tab, "custom_tab_name": "Light", "custom_tab_primary": True, "show_default_tab": False,
    "title_override": "Beacon",
}  # fmt: skip
_keywords = {name: value for name, value in _gradio.items() if name in _parameters}
if "gradio_builder" in _parameters:
    app = create_app(
        _factory, BeaconAction, BeaconObservation, env_name="beacon_env", max_concurrent_envs=4, **_keywords
    )
else:
    app = create_app(_factory, BeaconAction, BeaconObservation, env_name="beacon_env", max_concurrent_envs=4)

if os.getenv("ENABLE_WEB_INTERFACE", "false").lower() in ("true", "1", "yes"):
    _metadata = load_environment_metadata(_factory(), "beacon_env")
    for _route in [route for route in app.routes if getattr(route, "path", None) == "/web"]:
        app.routes.remove(_route)

    @app.get("/web", response_class=HTMLResponse)
    async def page():
        return page_html(_metadata)


app.routes[:] = [route for route in app.routes if getattr(route, "path", None) != "/reset"]


@app.post("/reset", tags=["disabled"])
async def no_reset_over_http():
    return JSONResponse(status_code=400, content={"error": "use the WebSocket"})


@app.get("/config")
def config():
    return {"flashes": FLASHES}


if not any(getattr(route, "path", None) == "/" for route in app.routes):

    @app.get("/", include_in_schema=False)
    async def root(request: Request):
        return RedirectResponse("/config")


class Stamp(BaseHTTPMiddleware):
    """Adds a header to responses."""

    async def dispatch(self, request: Request, call_next):
        response = await call_next(request)
        response.headers["X-Beacon"] = "on"
        return response


app.add_middleware(Stamp)


def main():
    import uvicorn

    uvicorn.run(app, host="0.0.0.0", port=int(os.getenv("PORT", "8000")), ws_ping_interval=30)


if __name__ == "__main__":
    main()
