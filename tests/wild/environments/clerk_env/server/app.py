"""The application of the clerk, made by a lambda."""

import os

from clerk_env.models import ClerkAction, ClerkObservation
from openenv.core.env_server import create_app

from .environment import ClerkEnvironment, Polite
from .tokens import Characters

system_prompt = os.environ.get("SYSTEM_PROMPT")
app = create_app(
    lambda: ClerkEnvironment(Characters(), system_prompt=system_prompt, transform=Polite()), ClerkAction,
    ClerkObservation, env_name="clerk_env",
)  # fmt: skip


def main():
    import uvicorn

    uvicorn.run(app, host="0.0.0.0", port=8000)


if __name__ == "__main__":
    main()
