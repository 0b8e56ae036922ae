"""`minecho.py` with the tasks that `http.txt` asks for: `python minecho_with_tasks.py PORT [simulation|production]`."""

import sys
from typing import Any

import minecho
import uvicorn

from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.types import ConcurrencyConfig


class EchoObservation(minecho.EchoObservation):
    echoed: str = ""
    payload: Any = None


class EchoEnv(minecho.EchoEnv):
    def list_tasks(self, split):
        return [{"id": f"{split}-{index}"} for index in range(3)]

    def num_tasks(self, split):
        return len(self.list_tasks(split))

    def get_task(self, split, index):
        return self.list_tasks(split)[index]

    def get_task_range(self, split, start=None, stop=None):
        return self.list_tasks(split)[start:stop]


if __name__ == "__main__":
    app = create_fastapi_app(
        EchoEnv, minecho.EchoAction, EchoObservation,
        concurrency_config=ConcurrencyConfig(max_concurrent_envs=2),
        env_name="minecho", state_cls=minecho.EchoState, mode=sys.argv[2],
    )  # fmt: skip
    uvicorn.run(app, port=int(sys.argv[1]), log_level="error")
