"""Reads the configuration of a training run from YAML, and names wrong keys and values."""

import contextlib
import dataclasses
import difflib
import re
import types
import typing
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from openenv.formats.yaml_text import read_yaml
from openenv.rl.config import Config, ConfigError, require
from openenv.rl.model_defaults import with_model, with_model_defaults

RENAMED_KEYS = {
    "reading": "pretrain",
    "rollout_threads": "groups_in_flight",
    "trainer.training.max_minutes": "max_minutes",
    "replay_buffer.drop_equal_groups": "replay_buffer.equal_groups",
}
"""Former names of keys, which are accepted for one release, and their current names."""
_RENAMED_VALUES = {"replay_buffer.drop_equal_groups": {True: "redraw", False: "keep"}}


_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


def load_config(path: str | Path, *, model_path: str | None = None, **changes: Any) -> Config:
    """Read the configuration of a run from a YAML file.

    Args:
        path: the file.
        model_path: trains the model there instead of that of the file, see `model_defaults.with_model`.
        changes: top-level keys to replace, as plain values.

    Raises:
        ConfigError: the file is no YAML, has a key twice or an unknown one (the nearest known one is named), or a value
            of a wrong type.
    """
    try:
        data = read_yaml(Path(path)) or {}
    except ValueError as error:
        raise ConfigError(str(error)) from error
    require(isinstance(data, dict), str(path), type(data).__name__, "the file must hold a mapping of keys.")
    data = {**with_current_keys(data), **with_current_keys(changes)}
    return config_from_mapping(data if model_path is None else with_model(data, model_path))


def config_from_mapping(data: Mapping[str, Any]) -> Config:
    """The configuration from nested mappings with the keys of the YAML file. Raises ConfigError like `load_config`."""
    data = with_current_keys(data)
    if "blackjack_env" in data:
        given = data.pop("blackjack_env") or {}
        # a server decides what it plays: the tutorial changes the game by changing the server
        game = {} if given.get("server_url") else {"reset": {"game_name": "blackjack"}}
        data["env"] = {"name": "openspiel", **game, **(data.get("env") or {}), **given}
    if "env" in data:
        data["env"] = [_environment(one) for one in (data["env"] if isinstance(data["env"], list) else [data["env"]])]
    if isinstance(data.get("model"), str):
        data["model"] = {"path": data["model"]}
    if isinstance(data.get("agent"), str):
        data["agent"] = {"function": data["agent"]}
    if isinstance(data.get("engine"), str):
        data["engine"] = {"name": data["engine"]}
    if isinstance(data.get("report_to"), str):
        data["report_to"] = [] if data["report_to"] == "none" else [data["report_to"]]
    return typing.cast(Config, _build(Config, with_model_defaults(data), ""))


def require_model(path: str) -> None:
    """Raise ConfigError unless a model can be loaded from `model.path`: a folder, a GGUF file, or a name like a hub id.

    A hub id is not looked up, as `require_on_hub` does; a name whose first part is a folder here, or `models`, is none.
    Empty: the run creates a tiny model.
    """
    is_gguf = path.lower().endswith(".gguf")
    place = Path(path)
    if not path or place.is_dir() or (is_gguf and place.is_file()):
        return
    is_local = place.exists() or (
        len(place.parts) > 1 and (place.parts[0] == "models" or Path(place.parts[0]).is_dir())
    )
    if is_local or is_gguf or _HUB_ID.fullmatch(path) is None:
        raise ConfigError(f"model.path={path!r}: there is no such folder, and no GGUF file.{hint_at_models(place)}")


def hint_at_models(place: Path) -> str:
    """What to write in place of a path without a model: a near one that is there."""
    near = _near_models(place)
    meant = f" Did you mean {' or '.join(near)}?" if near else ""
    return f"{meant} Give the path of a folder or GGUF file, or a hub id such as ORGANISATION/MODEL."


def _near_models(place: Path) -> list[str]:
    """The folders and GGUF files that a path may mean: of similar names beside it or in `models`, or in the home."""
    if place.parts[0] == "~":
        return [str(place.expanduser())] if place.expanduser().exists() else []
    found: dict[str, str] = {}
    for folder in (Path("models"), place.parent):
        with contextlib.suppress(OSError):
            known = [inner for inner in folder.iterdir() if inner.is_dir() or inner.suffix.lower() == ".gguf"]
            found |= {inner.name: str(inner) for inner in known}
    return [found[name] for name in difflib.get_close_matches(place.name, found, n=2)]


def _environment(entry: Any) -> Any:
    """An entry of `env` as a mapping, which has a name."""
    if isinstance(entry, str):
        return {"name": entry}
    if isinstance(entry, dict) and entry.get("server_url") and "name" not in entry:
        return {**entry, "name": entry["server_url"]}
    return entry


def with_current_keys(data: Mapping[str, Any], *, warn: bool = True) -> dict[str, Any]:
    """A copy in which renamed keys have their current name. Warns for each. Raises ConfigError if both are given."""
    current = _copied(data)
    url = (current.get("model") or {}).pop("vllm_url", "") if isinstance(current.get("model"), dict) else ""
    if url:
        require("generator" not in current, "model.vllm_url", url, "the former name of generator.url. Remove it.")
        if warn:
            warnings.warn(
                "model.vllm_url: this key is now called generator.url; rename it", FutureWarning, stacklevel=3
            )
        current["generator"] = {"name": "vllm", "url": url}
    for old, new in RENAMED_KEYS.items():
        former, name = _holder(current, old)
        if former is None or name not in former:
            continue
        value = former.pop(name)
        holder, name = _holder(current, new)
        assert holder is not None  # the new name's mapping is the top level or that of the old name
        require(name not in holder, old, value, f"the former name of {new}, which is given too. Remove it.")
        if warn:
            warnings.warn(f"{old}: this key is now called {new}; rename it", FutureWarning, stacklevel=3)
        holder[name] = _RENAMED_VALUES[old].get(value, value) if isinstance(value, bool) else value
    return current


def _copied(data: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _copied(value) if isinstance(value, Mapping) else value for key, value in data.items()}


def _holder(data: dict[str, Any], key: str) -> tuple[dict[str, Any] | None, str]:
    """The mapping that holds a dotted key, if there is one, and the key's last part."""
    *path, name = key.split(".")
    holder: Any = data
    for part in path:
        holder = holder.get(part) if isinstance(holder, dict) else None
    return (holder if isinstance(holder, dict) else None), name


def _build(cls: type, data: Mapping[str, Any], prefix: str) -> Any:
    hints = typing.get_type_hints(cls)
    for key in data:
        if key not in hints:
            near = difflib.get_close_matches(str(key), hints, n=1)
            hint = f"did you mean {prefix}{near[0]}?" if near else f"known keys: {', '.join(hints)}."
            raise ConfigError(f"{prefix}{key}: unknown key; {hint}")
    return cls(**{key: _value(hints[key], value, f"{prefix}{key}") for key, value in data.items()})


def _value(kind: Any, value: Any, key: str) -> Any:
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
        return _value_of_union(typing.get_args(kind), value, key)
    if dataclasses.is_dataclass(kind):
        require(isinstance(value, Mapping), key, value, "must be a mapping of keys.")
        return _build(typing.cast(type, kind), value, f"{key}.")
    if typing.get_origin(kind) is Literal:
        require(value in typing.get_args(kind), key, value, f"must be one of {', '.join(typing.get_args(kind))}.")
        return value
    if typing.get_origin(kind) is tuple:
        kinds = typing.get_args(kind)
        right = isinstance(value, Sequence) and not isinstance(value, str) and len(value) == len(kinds)
        require(right, key, value, f"must be a list of {len(kinds)}.")
        return tuple(_value(part, item, f"{key}[{i}]") for i, (part, item) in enumerate(zip(kinds, value, strict=True)))
    if typing.get_origin(kind) is list:
        require(isinstance(value, list), key, value, "must be of type list.")
        (part,) = typing.get_args(kind)
        is_alone = len(value) == 1 and dataclasses.is_dataclass(part)
        return [_value(part, item, key if is_alone else f"{key}[{i}]") for i, item in enumerate(value)]
    return _plain_value(kind, value, key)


def _value_of_union(kinds: Sequence[Any], value: Any, key: str) -> Any:
    """None and words where the union has them; otherwise a value of the first kind."""
    if value is None and types.NoneType in kinds:
        return None
    words = [word for kind in kinds if typing.get_origin(kind) is Literal for word in typing.get_args(kind)]
    return value if value in words else _value(kinds[0], value, key)


def _plain_value(kind: Any, value: Any, key: str) -> Any:
    if kind is str and value is None:
        return ""  # a key without a value in the file
    kind = typing.get_origin(kind) or kind
    if kind is float and isinstance(value, (int, str)) and not isinstance(value, bool):
        try:
            return float(value)  # YAML parses 3e-4, without a dot, as a string
        except ValueError:
            pass
    right = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
    require(right, key, value, f"must be of type {kind.__name__}.")
    return value
