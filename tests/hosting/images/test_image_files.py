"""An image from this machine has the files of the packages that its environment needs, and no others."""

import io
import os
import tarfile
from importlib.metadata import requires
from pathlib import Path

import pytest

from openenv.hosting.images.distributions import (
    ENVIRONMENT,
    PACKAGES,
    own_files,
    package_files,
    required_distributions,
)
from openenv.hosting.images.image_files import ImageFiles
from openenv.hosting.images.machine_python import INTERPRETER, python_files


def names(*requirements: str) -> set[str]:
    return {found.metadata["Name"].lower().replace("_", "-") for found in required_distributions(requirements)}


def make_distribution(site: Path, name: str, version: str, *needed: str, record: str = "") -> None:
    info = site / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    lines = "".join(f"Requires-Dist: {text}\n" for text in needed)
    extras = "Provides-Extra: fast\nProvides-Extra: all\n"
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{extras}{lines}\n")
    (info / "RECORD").write_text(record + f"{info.name}/METADATA,,\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages on the path of modules."""
    folder = tmp_path / "lib" / "python" / "site-packages"
    folder.mkdir(parents=True)
    monkeypatch.syspath_prepend(str(folder))
    return folder


def test_requirements_are_followed_to_their_end_and_those_of_other_extras_and_systems_left_out(site: Path) -> None:
    make_distribution(site, "aa", "1", "bb>=2", "cc; extra == 'fast'", "dd; extra == 'slow'", "ee; os_name == 'other'")
    make_distribution(site, "bb", "2", "aa")
    make_distribution(site, "cc", "1")

    assert names("aa") == {"aa", "bb"}
    assert names("aa[fast]") == {"aa", "bb", "cc"}


def test_an_extra_that_names_another_extra_of_its_own_distribution_is_followed(site: Path) -> None:
    make_distribution(site, "aa", "1", "aa[fast]; extra == 'all'", "cc; extra == 'fast'")
    make_distribution(site, "cc", "1")

    assert names("aa[all]") == {"aa", "cc"}


@pytest.mark.parametrize(
    ("requirement", "message"),
    [
        ("zz9>=1", r"what was asked for needs zz9>=1, which is not installed: pip install 'zz9>=1'"),
        ("aa[fast]", r"aa needs cc>=2; extra == \"fast\", but 1 is installed"),
        ("a b c", r"'a b c' is no requirement"),
    ],
)
def test_what_is_not_installed_is_named_with_the_remedy(site: Path, requirement: str, message: str) -> None:
    make_distribution(site, "aa", "1", "cc>=2; extra == 'fast'")
    make_distribution(site, "cc", "1")

    with pytest.raises(ValueError, match=message):
        required_distributions([requirement])


def test_the_packages_of_an_environment_are_those_of_its_extra_and_none_of_the_others() -> None:
    plain, openspiel = names("openenv-rl"), names("openenv-rl[openspiel]")

    assert {"openenv-rl", "pydantic", "pydantic-core", "uvicorn", "orjson"} <= plain
    assert {"open-spiel", "numpy"} <= openspiel - plain
    assert not {"pytest", "torch", "docker"} & openspiel
    assert any("torch" in text for text in requires("openenv-rl") or ())


def test_files_are_those_of_the_record_without_scripts_and_without_what_names_this_machine(site: Path) -> None:
    listed = ["aa/__init__.py", "aa/gone.py", "../../../bin/aa", "../../../share/aa.txt", "../../../../outside"]
    listed += ["aa/__pycache__/x.pyc", "aa-1.dist-info/direct_url.json"]
    make_distribution(site, "aa", "1", record="".join(f"{name},,\n" for name in listed))
    for name in {*listed, "aa/unlisted.py"} - {"aa/gone.py"}:
        path = (site / name).resolve()
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text("{}")

    copied = package_files(required_distributions(["aa"])).copies

    assert {path for path in copied if not path.startswith("usr/")} == {
        f"{PACKAGES}/aa/__init__.py", f"{ENVIRONMENT}/share/aa.txt", f"{PACKAGES}/aa-1.dist-info/METADATA",
    }  # fmt: skip


def test_an_editable_installation_is_refused_because_its_record_lists_no_modules(site: Path) -> None:
    make_distribution(site, "aa", "1")
    (site / "aa-1.dist-info" / "direct_url.json").write_text('{"url": "file:///x", "dir_info": {"editable": true}}')

    with pytest.raises(ValueError, match="aa is installed in editable mode"):
        package_files(required_distributions(["aa"]))


def test_the_package_that_runs_is_there_with_its_manifests() -> None:
    copied = own_files().copies

    assert f"{PACKAGES}/openenv/envs/echo_env/openenv.yaml" in copied
    assert f"{PACKAGES}/openenv/core/env_client.py" in copied
    assert f"{PACKAGES}/openenv_core/__init__.py" in copied
    assert any(path.endswith(".dist-info/METADATA") for path in copied)
    assert not [path for path in copied if path.endswith((".pth", "direct_url.json"))]


def test_hidden_files_and_compiled_modules_of_a_folder_stay_on_the_machine(tmp_path: Path) -> None:
    for name in ("app.py", ".env", ".git/config", "data/.netrc", "__pycache__/app.pyc", "data/table.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("secret")
    files = ImageFiles()
    files.add_tree(tmp_path, "env")

    assert set(files.copies) == {"env/app.py", "env/data/table.csv"}


def test_a_link_that_leads_out_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").touch()
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "key").symlink_to("../secret")

    with pytest.raises(ValueError, match=r"key is a link to .*/secret, outside of .*/env"):
        ImageFiles().add_tree(tmp_path / "env", "env")


def test_each_entry_of_the_archive_belongs_to_root_can_be_read_by_all_and_is_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    (tmp_path / "a").chmod(0o600)
    os.link(tmp_path / "a", tmp_path / "b")
    (tmp_path / "b").chmod(0o700)
    files = ImageFiles(texts={"c": "text"}, links={"d": "c"})
    files.add_tree(tmp_path, "x")
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        files.write(archive, "root")
    content.seek(0)
    with tarfile.open(fileobj=content) as archive:
        entries = {entry.name: entry for entry in archive}

    assert set(entries) == {"root/x/a", "root/x/b", "root/c", "root/d"}
    assert {entry.uid for entry in entries.values()} == {0}
    assert all(entry.isreg() and entry.mode == 0o755 for name, entry in entries.items() if "/x/" in name)
    assert entries["root/c"].mode == 0o644
    assert entries["root/d"].linkname == "c"


def test_the_interpreter_is_there_with_its_libraries_and_without_tests_and_packages() -> None:
    files = python_files()

    assert INTERPRETER in files.copies
    assert any(path.endswith("/os.py") for path in files.copies)
    assert any("/libc.so" in path for path in files.copies)
    assert any("/ld-linux" in path for path in files.copies)
    assert not [path for path in files.copies if "/test/" in path or "-packages/" in path or "tkinter" in path]
    assert not [path for path in files.copies if not path.startswith("usr/")]
    assert files.folders == {"tmp": 0o1777}


def test_a_library_that_another_layer_has_is_not_copied_again() -> None:
    core = required_distributions(["pydantic-core"])
    python = python_files()

    assert [path for path in package_files(core).copies if path.endswith("/libc.so.6")]
    assert package_files(core, python).copies.keys() & python.copies.keys() == set()
