"""A catalog in a folder: what it lists, finds and gives, and what it refuses."""

import json
from pathlib import Path

import pytest

from openenv.catalog.bundled import bundled
from openenv.catalog.entry import CatalogError
from openenv.catalog.index import listing, publish, read_folder
from openenv.certification.card import CardError, files_digest
from openenv.envs.catalog import entries
from openenv.installation import bundle_version
from tests.catalog.published import card_of, change, made_environment, published_in


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    return tmp_path / "catalog"


def pulled(catalog: Path, tmp_path: Path, wanted: str) -> Path:
    into = tmp_path / "pulled"
    into.mkdir()
    read_folder(catalog).find(wanted).pull(into)
    return into


def test_what_was_published_is_found_and_pulled_with_equal_files(catalog: Path, tmp_path: Path) -> None:
    source = published_in(catalog)

    (entry,) = read_folder(catalog).search(["GUESS"])

    assert (str(entry), entry.description, entry.proofs) == ("tide_env@0.1.0", "Guess a number.", "1 pass")
    assert files_digest(pulled(catalog, tmp_path, "tide_env")) == files_digest(source) == entry.source.digest


def test_the_newest_version_is_found_unless_one_is_named(catalog: Path) -> None:
    for version in ("0.10.0", "0.9.0", "1.0.0rc1"):
        published_in(catalog, version=version)
    found = read_folder(catalog)

    assert found.find("tide_env").version == "1.0.0rc1"
    assert found.find("tide_env@0.9.0").version == "0.9.0"
    with pytest.raises(CatalogError, match=r"tide_env@2 is not in .*, which has tide_env@0\.10\.0, tide_env@0\.9\.0"):
        found.find("tide_env@2")
    with pytest.raises(CatalogError, match=r"tides is not in .*, which has tide_env"):
        found.find("tides")


def test_environments_with_most_of_the_words_are_first_and_those_with_none_are_left_out(catalog: Path) -> None:
    published_in(catalog, "one_env", description="Cards for two.")
    published_in(catalog, "two_env", "0.1.1", description="A game of cards.")
    published_in(catalog, "six_env", "0.1.2", description="A maze.")
    found = read_folder(catalog)

    assert [entry.name for entry in found.search(["card game"])] == ["two_env", "one_env"]
    assert [entry.name for entry in found.search([])] == ["one_env", "two_env", "six_env"]
    assert found.search(["aze"]) == []


@pytest.mark.parametrize(
    ("path", "old", "new", "error", "message"),
    [
        (
            "environments/tide_env-0.1.0/server/environment.py",
            "import",
            "import os, ",
            CatalogError,
            "files are sha256",
        ),
        ("catalog.json", '"digest": "sha256:', '"digest": "sha256:0', CatalogError, "its card is of the source"),
        ("cards/tide_env-0.1.0.json", '"minutes": 1.5', '"minutes": 2.5', CardError, "it was changed"),
    ],
)
def test_a_source_a_digest_or_a_card_that_was_changed_is_refused(
    catalog: Path, tmp_path: Path, path: str, old: str, new: str, error: type[Exception], message: str
) -> None:
    published_in(catalog)
    change(catalog / path, old, new)

    with pytest.raises(error, match=message):
        pulled(catalog, tmp_path, "tide_env")


def test_a_file_that_was_added_to_the_source_is_refused(catalog: Path, tmp_path: Path) -> None:
    published_in(catalog)
    (catalog / "environments/tide_env-0.1.0/sitecustomize.py").write_text("")

    with pytest.raises(CatalogError, match="its files are sha256:"):
        pulled(catalog, tmp_path, "tide_env")


@pytest.mark.parametrize("path", ["/etc", "../../etc", "environments/../../x"])
def test_a_path_that_leads_out_of_the_catalog_is_refused(catalog: Path, path: str) -> None:
    published_in(catalog)
    change(catalog / "catalog.json", "environments/tide_env-0.1.0", path)

    with pytest.raises(CatalogError, match="leads out of the catalog"):
        read_folder(catalog)


@pytest.mark.parametrize(
    ("old", "new"),
    [('"tide_env"', '"../tide"'), ('"0.1.0"', '"../1"'), ("Guess", "\\u001b]0;x"), ("Guess", "a\\nb")],
)
def test_a_name_or_text_that_is_more_than_that_is_refused(catalog: Path, old: str, new: str) -> None:
    published_in(catalog)
    change(catalog / "catalog.json", old, new)

    with pytest.raises(CatalogError, match="a name has letters"):
        read_folder(catalog)


@pytest.mark.parametrize("text", ["", "[]", '{"format": 2}', '{"format": 1, "environments": [{"name": "x"}]}'])
def test_what_is_no_index_is_refused_with_its_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "catalog.json").write_text(text)

    with pytest.raises(CatalogError, match=r"catalog\.json is no"):
        read_folder(tmp_path)


def test_a_version_is_published_with_one_source_alone(catalog: Path, tmp_path: Path) -> None:
    source = published_in(catalog)
    publish(card_of(source, tmp_path / "other.pem"), source, catalog)
    assert len(read_folder(catalog).entries) == 1
    change(source / "models.py", '"""', '"""Other. ')

    with pytest.raises(CatalogError, match=r"has tide_env@0\.1\.0 with another source: raise it in pyproject\.toml"):
        listing(source, catalog)


def test_a_card_that_failed_or_is_of_another_source_is_not_published(catalog: Path, tmp_path: Path) -> None:
    source = made_environment(tmp_path, "tide_env")
    with pytest.raises(CatalogError, match="a card with a failed proof is not published: signal"):
        publish(card_of(source, tmp_path / "key.pem", "fail"), source, catalog)
    card = card_of(source, tmp_path / "key.pem")
    change(source / "models.py", '"""', '"""Other. ')

    with pytest.raises(CatalogError, match="certify it again"):
        publish(card, source, catalog)
    assert not catalog.exists()


def test_an_environment_without_a_version_is_refused_before_it_is_certified(catalog: Path, tmp_path: Path) -> None:
    source = made_environment(tmp_path, "tide_env")
    (source / "pyproject.toml").unlink()

    with pytest.raises(CatalogError, match=r"version '': write one, as 0\.1\.0, in its pyproject\.toml"):
        listing(source, catalog)


def test_secrets_and_caches_are_not_published_and_links_are_refused(catalog: Path, tmp_path: Path) -> None:
    source = made_environment(tmp_path, "tide_env")
    for name in (".env", "server/api.key", "runs/step.json"):
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).write_text("secret")
    publish(card_of(source, tmp_path / "key.pem"), source, catalog)
    assert "secret" not in [path.read_text() for path in catalog.rglob("*") if path.is_file()]
    (source / "link.py").symlink_to("/etc/passwd")

    with pytest.raises(CardError, match=r"link\.py is a link"):
        listing(source, catalog)


def test_pages_show_each_environment_and_what_a_card_holds_as_text(catalog: Path) -> None:
    published_in(catalog)

    assert (
        "| [tide_env@0.1.0](environments/tide_env-0.1.0) | Guess a number. | [1 pass]("
        in (catalog / "README.md").read_text()
    )
    card = (catalog / "cards/tide_env-0.1.0.md").read_text()
    assert "| signal | pass | a \\| b &lt;i> |" in card
    assert json.loads((catalog / "cards/tide_env-0.1.0.json").read_text())["source"] in card


def test_the_package_is_a_catalog_of_its_environments(tmp_path: Path) -> None:
    found = bundled()

    assert [entry.name for entry in found.entries] == [entry.name for entry in entries()]
    assert found.find("snake").version == bundle_version()
    assert found.search(["mujoco"])[0].name == "dm_control"
    with pytest.raises(CatalogError, match="it comes with openenv"):
        found.find("snake").pull(tmp_path)


def test_the_cards_of_the_package_are_signed_and_each_lies_with_its_environment() -> None:
    cards = {entry.name: entry.card for entry in bundled().entries if entry.card is not None}

    assert len(cards) > 15
    for name, card in cards.items():
        card.verify()
        assert card.name == name
        assert card.command.startswith(f"openenv certify {name} ")
