"""The card of a certified environment: what was proved, of which source, by which command. It is signed."""

import base64
import hashlib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import orjson

from openenv.auto.environment import NamedEnvironment
from openenv.auto.resolver import resolve
from openenv.envs.catalog import load
from openenv.formats.json_text import json_text
from openenv.hosting.shared_files import shared_files
from openenv.installation import bundle_version, install_line

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

FORMAT = 1
CARD_FILE = "card.json"
"""Of a card in the folder of its environment."""
_NOT_SOURCE = ("/runs/", "/dist/", f"/{CARD_FILE}")


class CardError(ValueError):
    """A card that cannot be read, or that is not what its signature is for."""


@dataclass(frozen=True, kw_only=True)
class Card:
    """What `openenv certify` writes."""

    name: str
    version: str
    """Of the environment's distribution; empty where there is none."""
    source: str | None
    """Of its files, as `source_digest` returns it; None where they are elsewhere."""
    reset: Mapping[str, Any]
    """Keywords of every reset: the task that was certified."""
    play: str | None
    """The SHA-256 of recorded play with fixed seeds; None where the server is elsewhere, or play is not repeatable."""
    proofs: list[Mapping[str, Any]]
    """In their order: name, status, what was seen, the remedy, and figures."""
    command: str
    """That made the card."""
    made: str
    """The time, in ISO 8601."""
    minutes: float
    """That it took."""
    openenv: str = field(default_factory=bundle_version)
    python: str = ""
    system: str = ""
    format: int = FORMAT
    public_key: str = ""
    """Ed25519, in base64."""
    signature: str = ""
    """Of all other fields, in base64."""

    @property
    def ok(self) -> bool:
        """Whether no proof has failed."""
        return all(one["status"] != "fail" for one in self.proofs)

    def text(self) -> str:
        """The card as JSON."""
        return json_text(asdict(self), indent=1)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a card. Raises CardError, also for one of another format."""
        try:
            fields = orjson.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            raise CardError(f"{path} is no card: {error}") from error
        if not isinstance(fields, dict) or fields.get("format") != FORMAT:
            raise CardError(f"{path} is no card of format {FORMAT}: make it again with `openenv certify`")
        try:
            return cls(**fields)
        except TypeError as error:
            raise CardError(f"{path} is no card: {error}") from error

    def signed(self, key: "Ed25519PrivateKey") -> "Card":
        """The card with a signature."""
        public = base64.b64encode(key.public_key().public_bytes_raw()).decode()
        unsigned = Card(**{**asdict(self), "public_key": public, "signature": ""})
        signature = base64.b64encode(key.sign(unsigned._signed_bytes())).decode()
        return Card(**{**asdict(unsigned), "signature": signature})

    def verify(self) -> None:
        """Raise CardError unless the signature is that of the card's public key for this content."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            public = Ed25519PublicKey.from_public_bytes(base64.b64decode(self.public_key, validate=True))
            public.verify(base64.b64decode(self.signature, validate=True), self._signed_bytes())
        except (InvalidSignature, ValueError) as error:
            raise CardError("the signature is not that of this card: it was changed, or never signed") from error

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the public key, as OpenSSH shows those of its keys."""
        digest = hashlib.sha256(base64.b64decode(self.public_key)).digest()
        return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"

    def _signed_bytes(self) -> bytes:
        fields = {name: value for name, value in asdict(self).items() if name != "signature"}
        return orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)


def source_digest(named: NamedEnvironment) -> str | None:
    """`sha256:` and the digest of an environment's files with their names; None where they are not on this machine.

    Its tests are among them. Caches, builds, runs, hidden files and files that may hold secrets are not.
    """
    source = resolve(named.name)
    if source.kind == "folder":
        return files_digest(source.folder)
    if source.kind == "program" and ".py:" in named.name:
        return files_digest(Path(named.name.rpartition(":")[0]))
    if named.info is not None and named.info.package == "openenv-rl":
        return files_digest(load(named.info.key).folder)
    return None


def files_digest(path: Path) -> str:
    """`sha256:` and the digest of `source_files` with their names; of one file, of its content and name."""
    digest, files = hashlib.sha256(), [path.name] if path.is_file() else source_files(path)
    root = path if path.is_dir() else path.parent
    for within in files:
        content = (root / within).read_bytes()
        digest.update(f"{within}\0{len(content)}\0".encode() + content)
    return f"sha256:{digest.hexdigest()}"


def source_files(folder: Path) -> list[str]:
    """The paths within a folder of the files of an environment's source, sorted. Its own card is none.

    Raises CardError for a link, of which a copy may be another file.
    """
    found = shared_files(folder, _NOT_SOURCE)
    links = [path for path in found if (folder / path).is_symlink()]
    if links:
        raise CardError(f"{folder / links[0]} is a link, which a source cannot have: copy its target")
    return found


def version_of(named: NamedEnvironment) -> str:
    """The version of an environment's distribution; empty where there is none."""
    if named.info is not None:
        return named.info.version
    source = resolve(named.name)
    return folder_version(source.folder) if source.kind == "folder" else ""


def folder_version(folder: Path) -> str:
    """The version in the `pyproject.toml` of an environment's folder; empty where there is none."""
    project = folder / "pyproject.toml"
    if not project.is_file():
        return ""
    return str(tomllib.loads(project.read_text(encoding="utf-8")).get("project", {}).get("version", ""))


def signing_key(path: Path) -> "Ed25519PrivateKey":
    """The key of a PEM file, which is made for its owner alone where there is none.

    Raises ImportError without the extra, CardError for a file with another kind of key.
    """
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError as error:
        raise ImportError(f"signing a card needs cryptography: {install_line('certify')}") from error
    if not path.exists():
        key = Ed25519PrivateKey.generate()
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(pem)
        return key
    try:
        found = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError) as error:
        raise CardError(f"{path} is no private key without a password: {error}") from error
    if not isinstance(found, Ed25519PrivateKey):
        raise CardError(f"{path} has another kind of key: make one with `openssl genpkey -algorithm ed25519`")
    return found
