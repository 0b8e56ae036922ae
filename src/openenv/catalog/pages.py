"""Pages of a catalog as Markdown, which the sites of git and the Hub show."""

from collections.abc import Iterable, Sequence

from openenv.catalog.entry import Entry
from openenv.certification.card import Card


def index_page(entries: Sequence[Entry]) -> str:
    """The page that lists all environments of a catalog's folder."""
    rows = [
        (f"[{entry}](environments/{entry.name}-{entry.version})", entry.description,
         f"[{entry.proofs}](cards/{entry.name}-{entry.version}.md)")
        for entry in entries
    ]  # fmt: skip
    return (
        "# Environments\n\n"
        "`openenv search WORDS --catalog PLACE` finds one, and `openenv pull NAME@VERSION --catalog PLACE` copies it "
        "and refuses it where its source is not that of its card. PLACE is this folder, or this repository's URL.\n\n"
        f"{_table(('Environment', 'What it is', 'Proofs'), rows)}\n"
    )


def card_page(card: Card, title: str) -> str:
    """The page of a card: each proof, and how to make it again."""
    proofs = _table(("Proof", "", "Seen"), [(one["name"], one["status"], one["seen"]) for one in card.proofs])
    keywords = ", ".join(f"`{key}={value!r}`" for key, value in card.reset.items())
    facts = [
        ("Source", f"`{card.source}`"),
        ("Keywords of each reset", keywords),
        ("Made", f"{card.made}, in {card.minutes:g} minutes, with openenv {card.openenv} and Python {card.python}"),
        ("Signed with", f"`{card.fingerprint}`"),
        ("Command", f"`{card.command}`"),
    ]
    shown = "\n".join(f"- **{name}**: {text}" for name, text in facts if text)
    return f"# {title}\n\n{proofs}\n\n{shown}\n"


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    """A text in one cell: what it has of Markdown and HTML is shown and does nothing, but for links of this module."""
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())
