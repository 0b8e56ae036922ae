"""The application of the relic: a ready instance where `create_app` asks for one."""

import inspect

try:
    from core.env_server.http_server import create_app

    from ..models import RelicAction, RelicObservation
    from .environment import RelicEnvironment
except ImportError:
    from models import RelicAction, RelicObservation

    try:
        from openenv_core.env_server.http_server import create_app
    except ImportError:
        from openenv.core.env_server.http_server import create_app
    from server.environment import RelicEnvironment


def _create():
    try:
        first = next(iter(inspect.signature(create_app).parameters.values()))
        annotation = str(first.annotation)
    except (StopIteration, TypeError, ValueError):
        annotation = "typing.Callable"
    expects_instance = "Environment" in annotation and "Callable" not in annotation
    given = RelicEnvironment() if expects_instance else RelicEnvironment
    return create_app(given, RelicAction, RelicObservation, env_name="relic_env")


app = _create()
