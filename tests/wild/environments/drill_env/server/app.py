"""The application of the drill, whose factory reads the environment's variables."""

import os

from openenv.core.env_server import create_app

from ..models import DrillAction, DrillObservation
from .environment import DrillEnvironment

modules = [name for name in os.getenv("DRILL_MODULES", "math").split(",") if name]


def create_drill_environment():
    """A drill with the modules of DRILL_MODULES."""
    return DrillEnvironment(modules=modules)


app = create_app(create_drill_environment, DrillAction, DrillObservation, env_name="drill_env")


def main():
    import uvicorn

    uvicorn.run(app, host="0.0.0.0", port=int(os.getenv("PORT", "8000")))


if __name__ == "__main__":
    main()
