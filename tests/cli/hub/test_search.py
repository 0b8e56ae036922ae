"""`openenv search` and `openenv pull` with catalogs: a folder, a git repository, a Space, the published form."""

import hashlib
import json
import subprocess
from pathlib import Path

import pytest

from openenv.certification.card import files_digest
from tests.catalog.published import change, published_in
from tests.cli.commands import run
from tests.cli.hub.conftest import Hub
from tests.cli.hub.local_hub import HubSpace

pytestmark = pytest.mark.process


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    published_in(tmp_path / "catalog")
    return tmp_path / "catalog"


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
    done = subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(catalog: Path) -> tuple[str, str]:
    """The URL of a repository with the catalog, and the name of its commit."""
    git(catalog, "init", "--quiet")
    git(catalog, "add", ".")
    git(catalog, "commit", "--quiet", "-m", "Add tide_env")
    return f"file://{catalog}", git(catalog, "rev-parse", "HEAD")


def pull(tmp_path: Path, place: str, *, wanted: str = "tide_env") -> Path:
    done = run("pull", wanted, "--catalog", place, "-o", str(tmp_path / "pulled"))
    assert done.returncode == 0, done.stderr
    assert "nothing of it was run" in done.stdout
    return tmp_path / "pulled/tide_env"


def test_a_folder_is_searched_and_pulled_from(catalog: Path, tmp_path: Path) -> None:
    table = run("search", "guess", "--catalog", str(catalog)).stdout
    (row,) = json.loads(run("search", "--catalog", str(catalog), "--json").stdout)

    assert "tide_env" in table
    assert "1 pass" in table
    assert row["proofs"] == {"signal": "pass"}
    assert files_digest(pull(tmp_path, str(catalog), wanted="tide_env@0.1.0")) == row["digest"]


def test_a_git_repository_is_pulled_from_at_its_head_or_at_a_commit(
    repository: tuple[str, str], tmp_path: Path
) -> None:
    url, commit = repository
    catalog = tmp_path / "catalog"
    (catalog / "catalog.json").unlink()
    git(catalog, "commit", "--quiet", "-am", "Remove the index")

    at_head = run("search", "--catalog", f"git+{url}")

    assert at_head.returncode == 1
    assert "catalog.json" in at_head.stderr
    assert (pull(tmp_path, f"git+{url}@{commit}") / "openenv.yaml").is_file()


def test_a_space_is_pulled_from(catalog: Path, hub: Hub, tmp_path: Path) -> None:
    files = {path.relative_to(catalog).as_posix(): path.read_bytes() for path in catalog.rglob("*") if path.is_file()}
    hub.state.spaces["bob/environments"] = HubSpace(files=files)
    hub.state.spaces["bob/other"] = HubSpace(files={"README.md": b""})

    assert (pull(tmp_path, "bob/environments") / "openenv.yaml").is_file()
    other = run("search", "--catalog", "bob/other")
    assert other.returncode == 1
    assert "bob/other has no catalog.json" in other.stderr


def test_the_environment_variable_names_the_catalog(
    catalog: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENENV_CATALOG", str(catalog))

    assert "tide_env" in run("search").stdout


def test_nothing_is_left_of_what_is_refused(catalog: Path, tmp_path: Path) -> None:
    change(catalog / "environments/tide_env-0.1.0/models.py", '"""', '"""Other. ')

    done = run("pull", "tide_env", "--catalog", str(catalog), "-o", str(tmp_path / "pulled"))

    assert done.returncode == 1
    assert "tide_env@0.1.0: the catalog names the source sha256:" in done.stderr
    assert list((tmp_path / "pulled").iterdir()) == []


def snapshot(url: str, commit: str, path: str = "environments/tide_env-0.1.0", **changes: object) -> dict[str, object]:
    """What the published package writes, as far as it is read."""
    source = {"provider": "github", "id": "ada/environments", "uri": url, "revision": commit}
    card = {"name": "tide_env", "description": "Guess.\nTwice.", "source": {**source, "path": path}}
    fields = {
        "schema_version": "0.1-draft", "complete": True, "source": source, "entries": [{"data": card, "tags": ["sea"]}],
        **changes,
    }  # fmt: skip
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return {**fields, "digest": f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"}


def test_a_snapshot_of_the_published_package_is_pulled_from_at_its_commit(
    repository: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, commit = repository
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.{url}.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "https://github.com/ada/environments.git")
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps(snapshot("https://github.com/ada/environments.git", commit)))

    assert commit[:12] in run("search", "sea", "--catalog", str(path)).stdout
    assert (pull(tmp_path, str(path)) / "openenv.yaml").is_file()


@pytest.mark.parametrize("where", ["link", "/etc"])
def test_a_snapshot_may_not_lead_out_of_its_repository(
    catalog: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    (catalog / "link").symlink_to(tmp_path)
    git(catalog, "init", "--quiet")
    git(catalog, "add", ".")
    git(catalog, "commit", "--quiet", "-m", "Add a link")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.file://{catalog}.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "https://github.com/ada/environments.git")
    path, commit = tmp_path / "snapshot.json", git(catalog, "rev-parse", "HEAD")
    path.write_text(json.dumps(snapshot("https://github.com/ada/environments.git", commit, where)))

    done = run("pull", "tide_env", "--catalog", str(path), "-o", str(tmp_path / "pulled"))

    assert done.returncode == 1
    assert "leads out of the repository" in done.stderr


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"schema_version": "9"}, "is no snapshot of schema_version '0.1-draft'"),
        ({"complete": False}, "is incomplete"),
        ({"digest": "sha256:0"}, "its content is not that of its digest"),
    ],
)
def test_another_snapshot_is_refused(tmp_path: Path, fields: dict[str, object], message: str) -> None:
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps({**snapshot("https://github.com/ada/environments.git", "0" * 40), **fields}))

    done = run("search", "--catalog", str(path))

    assert done.returncode == 1
    assert message in done.stderr


@pytest.mark.parametrize("uri", ["ext::sh -c true", "file:///etc", "--upload-pack=x"])
def test_a_snapshot_may_name_repositories_of_https_alone(tmp_path: Path, uri: str) -> None:
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps(snapshot(uri, "0" * 40)))

    assert "is no folder of a commit" in run("search", "--catalog", str(path)).stderr


def test_what_is_no_catalog_is_refused_with_the_forms() -> None:
    done = run("search", "--catalog", "./nowhere")

    assert done.returncode == 1
    assert "./nowhere is no catalog: give a folder with catalog.json, git+URL" in done.stderr
