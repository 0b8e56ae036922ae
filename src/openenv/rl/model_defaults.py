"""The defaults of a run that follow from its model: those of a pretrained model, beneath what the file says.

The defaults of `openenv.rl.config` are those of the tiny model that a run creates itself. A pretrained model knows
language and needs other numbers. Where each comes from is in docs/train.md.
"""

import logging
import os
from collections.abc import Mapping
from typing import Any

log = logging.getLogger(__name__)

PRETRAINED: Mapping[str, Any] = {
    "sampling": {"constrain": True},
    "max_req_tokens": 1024,
    "max_res_tokens": 64,
    "loss": {"kl_weight": 0.0, "entropy_floor": 0.9, "entropy_floor_end": 0.03},
    "trainer": {
        "training": {"steps": 130},
        "optimizer": {"lr": 1e-5},
        "kl_target": 0.02,
    },
    "replay_buffer": {"batch_decisions": 700},
    "evaluation": {"num_games": 2000, "interval": 20, "interval_games": 100},
}
"""For whole weights."""
WITH_LORA: Mapping[str, Any] = {"trainer": {"optimizer": {"lr": 2e-4}}}
"""What differs with an adapter, which changes nothing at first and has fewer weights."""
TINY_WITHOUT_FILE: Mapping[str, Any] = {
    "model": {"hidden_size": 64, "num_layers": 2, "intermediate_size": 192},
    "groups_in_flight": 128,
    "max_res_tokens": 32,
    "pretrain": {"max_decisions": 40_000, "steps": 800, "batch_size": 256},
    "reward": {"discount": 0.99},
    "loss": {"kl_weight": 0.02, "entropy_weight": 0.03},
    "trainer": {"training": {"steps": 400}, "optimizer": {"lr": 1e-3}},
    "replay_buffer": {"equal_groups": "redraw"},
    "evaluation": {"num_games": 2000},
}
"""The tiny model in any environment, without a file. The numbers are those of benchmarks/learning.yaml, which trains a
dozen environments with them. Replies are longer, and evaluations shorter: the environment is unknown."""
_OF_ANY_MODEL = (
    *("name", "seed", "max_minutes", "env", "blackjack_env", "reward", "conversation", "off_by_n", "checkpoint"),
    *("agent", "report_to", "project", "transcripts", "threads"),
)
"""Keys of a file whose values suit any model."""
_SIZES = ("hidden_size", "num_layers", "num_heads", "intermediate_size")


def with_model_defaults(data: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a configuration, above the defaults of its model. data: as in the YAML file."""
    model = data.get("model")
    if not isinstance(model, Mapping) or not model.get("path"):
        return dict(data)
    defaults = merged(PRETRAINED, WITH_LORA) if model.get("lora") is not None else PRETRAINED
    return merged({**defaults, "threads": os.cpu_count() or 1}, data)


def with_model(data: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The keys of a configuration for another model. data: as in the YAML file, with the current keys.

    Of a configuration for the tiny model only the keys remain that suit any model: its learning rate or its reply
    length would be wrong for a pretrained one. A warning names those that are left out.
    """
    model = data.get("model") or {}
    if isinstance(model, str):
        return {**data, "model": path}
    if model.get("path"):
        return {**data, "model": {**model, "path": path}}
    settings = {key: value for key, value in model.items() if key not in _SIZES}
    left_out = [key for key in data if key not in _OF_ANY_MODEL and key != "model"]
    if left_out:
        log.warning(
            "the file is for the tiny model: its values of %s are left out, and the defaults of a pretrained model "
            "apply. Set model.path in a file to give your own.",
            ", ".join(left_out),
        )
    kept = {key: value for key, value in data.items() if key in _OF_ANY_MODEL}
    return {**kept, "model": {"instructions": True, **settings, "path": path}}


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Nested mappings as one. A value of `above` replaces that of `below`."""
    result = dict(below)
    for key, value in above.items():
        known = result.get(key)
        result[key] = merged(known, value) if isinstance(known, Mapping) and isinstance(value, Mapping) else value
    return result
