"""The catalog that the package is itself."""

from openenv.catalog.entry import Entry, InstalledSource
from openenv.catalog.index import Catalog
from openenv.certification.card import CARD_FILE, Card, files_digest
from openenv.envs.catalog import CatalogEntry, entries
from openenv.installation import bundle_version


def bundled() -> Catalog:
    """The environments that come with the package, with the cards that lie beside them. Raises CardError."""
    return Catalog("the package", [_entry(one) for one in entries()])


def bundled_card(one: CatalogEntry) -> Card | None:
    """The card of an environment, if it has one. Raises CardError."""
    path = one.folder / CARD_FILE
    return Card.read(path) if path.is_file() else None


def _entry(one: CatalogEntry) -> Entry:
    return Entry(
        name=one.name,
        version=bundle_version(),
        description=one.description,
        source=InstalledSource(digest=files_digest(one.folder)),
        card=bundled_card(one),
    )
