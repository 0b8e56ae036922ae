"""The defaults of a run that follow from its model: those of a pretrained model, beneath what the file says.

The defaults of `openenv.rl.config` are those of the tiny model that a run creates itself. A pretrained model knows
language and needs other numbers. Where each comes from is in docs/train.md.
"""

import os
from collections.abc import Mapping
from typing import Any

PRETRAINED: Mapping[str, Any] = {
    "sampling": {"constrain": True},
    "max_req_tokens": 1024,
    "max_res_tokens": 64,
    "loss": {"kl_weight": 0.0, "entropy_floor": 0.85, "entropy_floor_end": 0.03},
    "trainer": {
        "training": {"steps": 130},
        "optimizer": {"lr": 1e-5},
        "kl_target": 0.02,
        "tokens_per_forward": 4096,
    },
    "replay_buffer": {"batch_decisions": 700},
    "evaluation": {"num_games": 2000, "interval": 20},
}
"""For whole weights."""
WITH_LORA: Mapping[str, Any] = {"trainer": {"optimizer": {"lr": 2e-4}}}
"""What differs with an adapter, which changes nothing at first and has fewer weights."""


def with_model_defaults(data: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a configuration, above the defaults of its model. data: as in the YAML file."""
    model = data.get("model")
    if not isinstance(model, Mapping) or not model.get("path"):
        return dict(data)
    defaults = merged(PRETRAINED, WITH_LORA) if model.get("lora") is not None else PRETRAINED
    return merged({**defaults, "threads": os.cpu_count() or 1}, data)


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Nested mappings as one. A value of `above` replaces that of `below`."""
    result = dict(below)
    for key, value in above.items():
        known = result.get(key)
        result[key] = merged(known, value) if isinstance(known, Mapping) and isinstance(value, Mapping) else value
    return result
