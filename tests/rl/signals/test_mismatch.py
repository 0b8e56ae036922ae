"""When a disagreement of generator and trainer is a warning."""

import pytest

from openenv.rl.signals.mismatch import MismatchWatch


def warnings_of(values: list[float | None]) -> list[str]:
    watch = MismatchWatch()
    return [text for value in values if (text := watch.add({"mismatch_kl": value})) is not None]


def test_a_disagreement_that_grows_is_named_once_with_the_settings_that_help() -> None:
    (warning,) = warnings_of([0.004, 0.003, 0.005] + [0.3] * 20)

    assert "0.3 nats a token, and by 0.004 at the beginning" in warning
    for setting in ("off_by_n", "loss.mask_sequences", "loss.mask_tokens", "model.float32_output"):
        assert setting in warning


@pytest.mark.parametrize(
    "values",
    [
        [0.0, 0.01, 0.03] + [0.06] * 20,  # the age of one step
        [0.2] * 20,  # no growth
        [0.0] * 5 + [0.3] * 7 + [0.0] + [0.3] * 7,  # it comes back
        [None] * 20,  # nothing was trained on
    ],
)
def test_what_is_usual_is_no_warning(values: list[float | None]) -> None:
    assert warnings_of(values) == []
