"""What is written about an environment: its metadata with its README, and how a program connects to it."""

import inspect
import os
from functools import partial
from pathlib import Path
from typing import Any

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, EnvironmentMetadata, Observation

README_VARIABLE = "ENV_README_PATH"


def load_environment_metadata(env: Any, env_name: str | None = None) -> EnvironmentMetadata:
    """Name, description and README of an environment. A class or factory is not called: its docstring describes it.

    env_name: the environment's folder. The README is the file of ENV_README_PATH, else `/app/README.md`, else
    `envs/<env_name>/README.md`, else the one beside the environment's package.
    """
    if isinstance(env, Environment):
        metadata = env.get_metadata()
    else:
        made: Any = env.func if isinstance(env, partial) else env
        name = env_name or str(getattr(made, "__name__", type(made).__name__))
        description = (inspect.getdoc(made) or f"{name} environment").splitlines()[0]
        metadata = EnvironmentMetadata(name=name, description=description, version="1.0.0")
    readme = next((path for path in _readmes(env, env_name) if path.is_file()), None)
    if metadata.readme_content is None and readme is not None:
        return metadata.model_copy(update={"readme_content": readme.read_text(encoding="utf-8", errors="replace")})
    return metadata


def _readmes(env: Any, env_name: str | None) -> list[Path]:
    paths = [Path(path) for path in (os.environ.get(README_VARIABLE), "/app/README.md") if path]
    if env_name:
        paths += [Path("envs") / env_name / "README.md"]
    module = inspect.getmodule(env if inspect.isclass(env) or inspect.isroutine(env) else type(env))
    if module is not None and getattr(module, "__file__", None):
        folder = Path(str(module.__file__)).parent
        paths += [folder / "README.md", folder.parent / "README.md"]
    return paths


def get_quick_start_markdown(
    metadata: EnvironmentMetadata | None, action_cls: type[Action], observation_cls: type[Observation]
) -> str:
    """Markdown that shows how a program connects, resets and steps, with the fields of this action."""
    name = metadata.name if metadata is not None else "environment"
    fields = ", ".join(f"{field}=..." for field, info in action_cls.model_fields.items() if info.is_required())
    client = f"{action_cls.__name__.removesuffix('Action')}Env"
    return f"""### Connect to {name}

```python
with {client}(base_url="http://localhost:8000") as env:
    result = env.reset()  # result.observation is a {observation_cls.__name__}
    result = env.step({action_cls.__name__}({fields}))
    print(result.observation, result.reward, result.done)
```
"""
