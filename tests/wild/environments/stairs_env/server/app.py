"""The application of the stairs: `uvicorn server.app:app`, or `python -m stairs_env.server.app`."""

import argparse

try:
    from openenv.core.env_server.http_server import create_app

    from ..models import StairsAction, StairsObservation
    from .environment import StairsEnvironment
except ImportError:
    from models import StairsAction, StairsObservation
    from server.environment import StairsEnvironment

    from openenv.core.env_server.http_server import create_app

app = create_app(StairsEnvironment, StairsAction, StairsObservation, env_name="stairs_env", max_concurrent_envs=4)


def main(host: str = "0.0.0.0", port: int = 8000):
    import uvicorn

    uvicorn.run(app, host=host, port=port)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="0.0.0.0")
    parser.add_argument("--port", type=int, default=8000)
    args = parser.parse_args()
    main(host=args.host, port=args.port)
