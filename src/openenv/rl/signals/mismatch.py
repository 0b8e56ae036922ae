"""Warns where generator and trainer come to disagree about the tokens that are trained on."""

import statistics
from collections.abc import Mapping
from typing import Any

_WINDOW = 8
"""Steps in a row that are beyond the bound before a warning comes."""
_FIRST = 3
"""Steps whose mean stands for the beginning of the run."""
_MOST = 0.1
"""Nats a token. Weights that are one step of 0.02 nats old cost up to 0.06, and vLLM's rounding in bfloat16 0.004."""
_GROWTH = 4.0


class MismatchWatch:
    """Follows `mismatch_kl`, the divergence of generator and trainer on the trained tokens, and warns once."""

    def __init__(self) -> None:
        self._first: list[float] = []
        self._latest: list[float] = []
        self._has_warned = False

    def add(self, row: Mapping[str, Any]) -> str | None:
        """Add the metrics of the next step. Returns a warning, or None."""
        value = row.get("mismatch_kl")
        if value is None:  # nothing was trained on
            return None
        if len(self._first) < _FIRST:
            self._first.append(value)
        self._latest = [*self._latest, value][-_WINDOW:]
        began = statistics.fmean(self._first)
        is_beyond = len(self._latest) == _WINDOW and min(self._latest) > max(_MOST, _GROWTH * began)
        if self._has_warned or not is_beyond:
            return None
        self._has_warned = True
        return (
            f"generator and trainer disagree by {statistics.fmean(self._latest):.2g} nats a token, and by {began:.2g} "
            "at the beginning: lower off_by_n or trainer.kl_target, leave out what they disagree about "
            "(loss.mask_sequences: [0.99, 1.01], loss.mask_tokens: [0.5, 5.0]), or compute more of the model in "
            "float32 (model.precision, and in this process model.float32_output)."
        )
