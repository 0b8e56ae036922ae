"""The card of `openenv certify`: signed, of one source, and refused when either was changed."""

import json
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from typer.testing import CliRunner

from openenv.auto.environment import named_environment
from openenv.certification.card import Card, CardError, signing_key, source_digest
from openenv.cli.main import app
from openenv.hosting.server_process import free_port
from openenv.installation import bundle_version


def card_of(tmp_path: Path, **fields: object) -> Card:
    given = {
        "name": "walks", "version": "1", "source": "sha256:0", "reset": {}, "play": None, "command": "openenv certify",
        "proofs": [{"name": "signal", "status": "pass", "seen": "ü", "remedy": "", "figures": {"share": 0.5}}],
        "made": "2026-01-01T00:00:00+00:00", "minutes": 1.5, **fields,
    }  # fmt: skip
    return Card(**given).signed(signing_key(tmp_path / "key.pem"))  # type: ignore[arg-type]


def test_a_card_is_read_as_it_was_written_and_its_signature_holds(tmp_path: Path) -> None:
    card = card_of(tmp_path)
    (tmp_path / "card.json").write_text(card.text(), encoding="utf-8")

    read = Card.read(tmp_path / "card.json")

    assert read == card
    read.verify()
    assert read.openenv == bundle_version()


@pytest.mark.parametrize("change", [{"source": "sha256:1"}, {"proofs": []}, {"minutes": 1.6}, {"public_key": "AA=="}])
def test_a_card_that_was_changed_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    fields = {**json.loads(card_of(tmp_path).text()), **change}
    (tmp_path / "card.json").write_text(json.dumps(fields))

    with pytest.raises(CardError, match="it was changed, or never signed"):
        Card.read(tmp_path / "card.json").verify()


@pytest.mark.parametrize("text", ["", "[]", '{"format": 7}', '{"format": 1, "colour": "red"}'])
def test_what_is_no_card_is_refused_with_its_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "card.json").write_text(text)

    with pytest.raises(CardError, match=r"card\.json is no card"):
        Card.read(tmp_path / "card.json")


def test_a_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    one = signing_key(tmp_path / "new/key.pem")

    assert signing_key(tmp_path / "new/key.pem").public_key() == one.public_key()
    assert stat.S_IMODE((tmp_path / "new/key.pem").stat().st_mode) == 0o600


def test_another_kind_of_key_is_refused_with_the_command_that_makes_one(tmp_path: Path) -> None:
    rsa = generate_private_key(65537, 2048)
    pem = rsa.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (tmp_path / "key.pem").write_bytes(pem)

    with pytest.raises(CardError, match="openssl genpkey -algorithm ed25519"):
        signing_key(tmp_path / "key.pem")


def test_the_digest_follows_the_files_of_the_environment_and_no_caches(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["init", "my_env"]).exit_code == 0
    named = named_environment("./my_env")
    first = source_digest(named)
    (tmp_path / "my_env/__pycache__").mkdir()
    (tmp_path / "my_env/__pycache__/models.cpython-311.pyc").write_bytes(b"0")

    assert source_digest(named) == first
    (tmp_path / "my_env/models.py").open("a").write("\n")
    assert source_digest(named) != first
    assert source_digest(named_environment("snake")) == source_digest(named_environment("snake_env"))
    assert source_digest(named_environment("http://127.0.0.1:9")) is None


@pytest.mark.process
def test_the_command_writes_a_card_that_verifies_until_the_source_changes(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["init", "my_env"]).exit_code == 0
    certify = ["certify", "./my_env", "--key", "key.pem"]

    made = CliRunner().invoke(app, [*certify, "--minutes", "0.5", "--no-train"])

    assert made.exit_code == 0, made.output
    card = Card.read(tmp_path / "card.json")
    card.verify()
    names = [one["name"] for one in card.proofs]
    assert names[-8:] == [
        "good play", "repeated answer", "no answer", "copied prompt", "hidden answer", "search for reward", "signal",
        "mutants",
    ]  # fmt: skip
    assert card.play is not None
    assert card.source is not None
    assert CliRunner().invoke(app, [*certify, "--verify", "card.json"]).exit_code == 0
    (tmp_path / "my_env/server/environment.py").open("a").write("# changed\n")
    changed = CliRunner().invoke(app, [*certify, "--verify", "card.json"])
    assert changed.exit_code == 1
    assert "the card is of sha256:" in changed.output


def test_a_card_is_not_that_of_an_environment_whose_source_is_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "card.json").write_text(card_of(tmp_path, source=None).text(), encoding="utf-8")

    result = CliRunner().invoke(app, ["certify", "http://127.0.0.1:9", "--verify", str(tmp_path / "card.json")])

    assert result.exit_code == 1
    assert "is not on this machine: give its folder" in result.output


def test_the_exit_code_is_one_where_a_proof_fails(tmp_path: Path) -> None:
    options = ["--key", str(tmp_path / "key.pem"), "--out", str(tmp_path / "card.json"), "--minutes", "0.5"]

    result = CliRunner().invoke(app, ["certify", f"http://127.0.0.1:{free_port()}", *options])

    assert result.exit_code == 1
    card = Card.read(tmp_path / "card.json")
    assert not card.ok
    assert (card.proofs[0]["name"], card.proofs[0]["status"]) == ("reachable", "fail")
