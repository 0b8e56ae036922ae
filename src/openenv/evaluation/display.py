"""One observation, printed for a person."""

from typing import Any

MAX_NUMBERS = 12


def show_openenv_observation(observation: Any) -> None:
    """Print what an observation says: its text first where it has one, then each field, long lists cut short."""
    print(observation_text(observation))  # noqa: T201  printing is what this function is for


def observation_text(observation: Any) -> str:
    """The lines that `show_openenv_observation` prints."""
    fields = observation.model_dump()
    metadata = fields.pop("metadata", None) or {}
    lines = [type(observation).__name__]
    if metadata.get("text"):
        lines += [f"  | {line}" for line in metadata["text"].strip().splitlines()]
    names = metadata.get("legal_action_names")
    for name, value in fields.items():
        if name == "legal_actions" and names:
            value = _short([f"{number} {word}" for number, word in zip(value, names, strict=True)])
        lines.append(f"  {name}: {_short(value)}")
    others = {key: value for key, value in metadata.items() if key not in ("text", "legal_action_names")}
    lines += [f"  metadata.{key}: {_short(value)}" for key, value in others.items()]
    return "\n".join(lines)


def _short(value: Any) -> str:
    if not isinstance(value, list):
        return str(value)
    more = f", ... {len(value)} values" if len(value) > MAX_NUMBERS else ""
    return f"[{', '.join(f'{item:g}' if isinstance(item, float) else str(item) for item in value[:MAX_NUMBERS])}{more}]"
