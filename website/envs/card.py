"""What the card of a bundled environment proves, and the curve of the model that has learned in it."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from openenv.catalog.bundled import bundled_card
from openenv.catalog.pages import card_page
from openenv.certification.card import Card, files_digest
from openenv.envs.catalog import CatalogEntry

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 560, 220, 48, 10, 190


def card_section(entry: CatalogEntry) -> str:
    """The section of a page; empty for an environment without a card."""
    card = bundled_card(entry)
    if card is None:
        return ""
    is_older = card.source != files_digest(entry.folder)
    older = " The files have changed since: the card is of an earlier source." if is_older else ""
    return (
        f"#{card_page(card, 'Proofs')}\n"
        "[`openenv certify`](../certify.md) made this card, which lies as `card.json` beside the environment's files."
        f"{older}\n\n{_learning(card)}"
    )


def _learning(card: Card) -> str:
    figures = next((one["figures"] for one in card.proofs if one["name"] == "learning"), {})
    seeds = figures.get("seeds", [])
    if not seeds:
        return ""
    rises = "; ".join(f"{one['before']:.3g} to {one['after']:.3g} in {one['steps']} steps" for one in seeds)
    text = (
        f"A model of our own with about 0.1 million weights, trained for {figures['minutes']:.1f} minutes of two cores "
        f"with each of {len(seeds)} seeds: {figures['unit']} in the games of each step. Before and after: "
        f"{rises}."
    )
    return f"### Learning\n\n{text}\n\n{_chart(figures['unit'], seeds)}"


def _chart(unit: str, seeds: Sequence[Mapping[str, Any]]) -> str:
    """The curves as an image in the page, of the size of its text."""
    curves = [one["curve"] for one in seeds]
    low, high = min(map(min, curves)), max(map(max, curves))
    if unit == "win rate":
        low, high = 0.0, 1.0
    steps = max(map(len, curves))
    lines = "".join(f'<polyline class="seed{number}" points="{_points(curve, steps, low, high)}"/>'
                    for number, curve in enumerate(curves))  # fmt: skip
    texts = "".join(
        f'<text x="{x}" y="{y}"{anchor}>{escape(text)}</text>'
        for x, y, anchor, text in (
            (_LEFT - 6, _TOP + 5, ' text-anchor="end"', f"{high:.3g}"),
            (_LEFT - 6, _BOTTOM, ' text-anchor="end"', f"{low:.3g}"),
            (_LEFT, _HEIGHT - 8, "", "step 1"),
            (_WIDTH, _HEIGHT - 8, ' text-anchor="end"', f"step {steps}"),
        )
    )
    axis = f'<path d="M{_LEFT} {_TOP}V{_BOTTOM}H{_WIDTH}"/>'
    return (
        f'<svg class="curve" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(unit)} by step, one line for each seed">{axis}{lines}{texts}</svg>'
    )


def _points(curve: Sequence[float], steps: int, low: float, high: float) -> str:
    across, up = (_WIDTH - _LEFT) / max(steps - 1, 1), (_BOTTOM - _TOP) / ((high - low) or 1.0)
    return " ".join(f"{_LEFT + across * at:.1f},{_BOTTOM - up * (value - low):.1f}" for at, value in enumerate(curve))
