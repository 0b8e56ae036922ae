"""The program and the application that serve an environment, made from its class."""

import argparse
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from openenv.core.env_server.config import ServerConfig
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.runner.env_spec import EnvSpec, resolve_env_spec
from openenv.hosting.serving.cli_options import add_server_options, run_server
from openenv.hosting.serving.settings import SettingOption, keywords_of, options_of

if TYPE_CHECKING:
    from fastapi import FastAPI

AnyEnvironment: TypeAlias = Environment[Any, Any, Any]
Factory: TypeAlias = Callable[[type[AnyEnvironment], Any], Callable[[], AnyEnvironment]]
"""Returns what makes the environment of a session, for the class and its settings."""

_SERVER = ".server"


class EnvironmentProgram:
    """Serves an environment: `app` for any ASGI server, and `main` for its command line. `server/app.py` is:

        program = EnvironmentProgram(MazeEnvironment, MazeSettings)
        app = program.app()

        if __name__ == "__main__":
            program.main()

    The options are those of every server, and one for each `option` of the settings class.
    """

    def __init__(
        self,
        environment: type[AnyEnvironment] | EnvSpec,
        settings_class: type | None = None,
        factory: Factory | None = None,
        **messages: Any,
    ) -> None:
        """Nothing is made yet.

        Args:
            environment: its class, whose message classes follow from its type arguments; or a specification.
            settings_class: a dataclass whose fields, options and others, are keywords of the environment's constructor.
            factory: a function of a module that makes environments in another way than by those keywords.
            messages: the message classes of `create_app` that do not follow, such as `reset_observation_cls`.
        """
        self._spec = environment if isinstance(environment, EnvSpec) else resolve_env_spec(environment, **messages)
        self._settings_class = settings_class
        self._factory = factory
        self._package = "" if isinstance(environment, EnvSpec) else environment.__module__.rpartition(".")[0]

    @property
    def environment(self) -> Callable[[], AnyEnvironment]:
        """Makes an environment with the default settings."""
        return self._spec.make

    @property
    def name(self) -> str:
        """The folder with `server/`, such as `maze_env`; the name of the class where it lies in no such folder."""
        if not self._package.endswith(_SERVER):
            return self._spec.name
        return self._package.removesuffix(_SERVER).rpartition(".")[2]

    @property
    def options(self) -> list[SettingOption]:
        """The options of the settings class."""
        return [] if self._settings_class is None else options_of(self._settings_class, self.name)

    def settings(self, environ: Mapping[str, str]) -> Any:
        """The settings in environment variables; None without a settings class.

        Raises ValueError, naming the field, for a wrong one.
        """
        return self._read({option.field: environ.get(option.variable) for option in self.options})

    def app(self) -> "FastAPI":
        """The application with the settings in the environment variables of this process.

        Raises ValueError, naming the field, for a wrong one.
        """
        return self._application(self.settings(os.environ), None)

    def build(self, config: ServerConfig | None = None, **settings: Any) -> "FastAPI":
        """The application with limits and fields of the settings class. Raises ValueError for a wrong one."""
        if self._settings_class is None and settings:
            raise TypeError(f"{', '.join(settings)}: {self.name} has no settings")
        return self._application(self._settings_class and self._settings_class(**settings), config)

    def main(self, argv: Sequence[str] | None = None) -> None:
        """Serve until interrupted. argv: command-line arguments; None: the program's own."""
        summary = (inspect.getdoc(self._spec.environment_cls) or self.name).partition("\n\n")[0].replace("%", "%%")
        program = f"python -m {self._package}.app" if self._package.endswith(_SERVER) else None
        parser = argparse.ArgumentParser(prog=program, description=summary)
        for option in self.options:
            option.add_to(parser, os.environ)
        add_server_options(parser)
        run_server(parser, argv, self._build)

    def _build(self, args: argparse.Namespace, config: ServerConfig) -> "FastAPI":
        settings = self._read({option.field: getattr(args, option.name) for option in self.options})
        return self._application(settings, config)

    def _read(self, texts: Mapping[str, str | None]) -> Any:
        """The settings in texts by field. An empty one, and None, mean the default."""
        if self._settings_class is None:
            return None
        return self._settings_class(
            **{option.field: option.value(text) for option in self.options if (text := texts[option.field])}
        )

    def _application(self, settings: Any, config: ServerConfig | None) -> "FastAPI":
        spec, make = self._spec, self._spec.make
        if self._factory is not None:
            make = self._factory(spec.environment_cls, settings)
        elif settings is not None:
            make = partial(spec.environment_cls, **keywords_of(settings))
        if settings is not None:
            make().close()  # a wrong setting fails here, not at the first session
        return create_app(
            make,
            spec.action_cls,
            spec.observation_cls,
            env_name=self.name,
            state_cls=spec.state_cls,
            reset_observation_cls=spec.reset_observation_cls,
            config=config,
        )
