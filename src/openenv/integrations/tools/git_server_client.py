"""Repositories of a Gitea server as the working folders of tasks."""

import os
import shlex
import shutil
import subprocess
import tempfile
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from openenv.core.utils import check_type, is_on_this_machine
from openenv.formats.json_text import json_text

_REQUEST_TIMEOUT_S = 10.0
_GIT_TIMEOUT_S = 300.0
_POLL_INTERVAL_S = 0.2
_PAGE_SIZE = 50
_LOGIN = '!f() { echo "username=$OPENENV_GIT_USERNAME"; echo "password=$OPENENV_GIT_PASSWORD"; }; f'
"""A credential helper of git that reads the login from the environment."""


@dataclass
class RepoInfo:
    """A repository."""

    name: str
    url: str
    commit: str
    clone_url: str


class GitServerClient:
    """Clones repositories of a Gitea server into one folder, and resets them between tasks.

    Example:
        client = GitServerClient("http://gitea:3000", "agent", password)
        client.wait_for_ready()
        folder = client.clone_to_workspace("task-7", commit="abc123")
        ...
        client.reset_workspace("task-7", commit="abc123")
    """

    def __init__(self, gitea_url: str, username: str, password: str, workspace_dir: str = "/workspace") -> None:
        """workspace_dir: the folder of the clones, which is created.

        Commits there have the user's name, unless a repository's own configuration names another. This program's
        user's configuration of git has no effect.
        """
        for name, value in (("gitea_url", gitea_url), ("username", username), ("password", password)):
            check_type(name, value, str, "a text")
        self.gitea_url = gitea_url.rstrip("/")
        self.username = username
        self.password = password
        self.workspace_dir = Path(workspace_dir)
        self.workspace_dir.mkdir(parents=True, exist_ok=True)
        self.is_ready = False
        settings = tempfile.mkdtemp(prefix="openenv-git-")
        weakref.finalize(self, shutil.rmtree, settings, ignore_errors=True)
        self._settings = Path(settings, "gitconfig")
        name, email = (json_text(text, ensure_ascii=False) for text in (username, f"{username}@local.env"))
        proxy = "[http]\nproxy =\n" if is_on_this_machine(gitea_url) else ""  # the empty name turns proxies off
        self._settings.write_text(
            f"[user]\nname = {name}\nemail = {email}\n[init]\ndefaultBranch = main\n{proxy}", encoding="utf-8"
        )

    def wait_for_ready(self, timeout: int = 30) -> bool:
        """Whether the server answers within `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while not self.is_ready and time.monotonic() < deadline:
            try:
                self._get("version")
                self.is_ready = True
            except RuntimeError:
                time.sleep(_POLL_INTERVAL_S)
        return self.is_ready

    def list_repositories(self) -> list[dict[str, str]]:
        """Name, full name, clone URL and description of each repository of the user. Raises RuntimeError."""
        found: list[dict[str, str]] = []
        while len(found) % _PAGE_SIZE == 0:
            page = self._get(f"user/repos?limit={_PAGE_SIZE}&page={len(found) // _PAGE_SIZE + 1}")
            if not page:
                break
            found += [{key: str(repo.get(key) or "") for key in ("name", "full_name", "clone_url", "description")}
                      for repo in page]  # fmt: skip
        return found

    def clone_to_workspace(self, repo_name: str, target_dir: str | None = None, commit: str = "main") -> str:
        """Clone a repository, in place of an earlier clone, and return the path of its folder.

        target_dir: name of the folder; None: the repository's. commit: a commit or branch; `main` is the branch that
        the server has as its default, whatever its name. Raises RuntimeError.
        """
        folder = self._folder(target_dir or repo_name)
        if folder == self.workspace_dir.resolve():
            raise RuntimeError(f"target_dir={target_dir!r} is the workspace itself: give the name of a folder in it")
        shutil.rmtree(folder, ignore_errors=True)
        owner, _, name = repo_name.rpartition("/")
        url = f"{self.gitea_url}/{quote(owner or self.username)}/{quote(name)}.git"
        self._git_with_login("clone", url, str(folder), cwd=self.workspace_dir)
        if commit != "main":
            self._git("checkout", commit, "--", cwd=folder)
        return str(folder)

    def reset_workspace(self, repo_name: str, commit: str = "main") -> bool:
        """Return a clone to a commit, or to a branch as the server has it now. Raises RuntimeError.

        Files that are not tracked, and commits that were made here, are gone.
        """
        folder = self._existing(repo_name)
        self._git_with_login("fetch", "--all", cwd=folder)
        branch = self._run(["git", "rev-parse", "--verify", "--quiet", f"origin/{commit}"], folder)
        self._git("checkout", "--force", commit, "--", cwd=folder)
        self._git("reset", "--hard", branch.stdout.strip() or commit, "--", cwd=folder)
        self._git("clean", "-ffdx", cwd=folder)
        return True

    def execute_git_command(self, command: str, working_dir: str = "") -> tuple[int, str, str]:
        """Exit code, output and errors of a git command. command: without `git`. working_dir: in the workspace.

        A folder that does not exist is an error with exit code 1. Raises RuntimeError for one outside the workspace.
        The command has no login: clone and reset_workspace alone use the password.
        """
        folder = self._folder(working_dir)
        if not folder.is_dir():
            return 1, "", f"{folder} does not exist: clone_to_workspace({working_dir!r}) first"
        done = self._run(["git", *shlex.split(command)], folder)
        return done.returncode, done.stdout, done.stderr

    def get_current_commit(self, repo_name: str) -> str:
        """The commit that a clone is at. Raises RuntimeError."""
        return self._git("rev-parse", "HEAD", cwd=self._existing(repo_name)).strip()

    def workspace_exists(self, repo_name: str) -> bool:
        """Whether there is a folder of that name."""
        return self._folder(repo_name).is_dir()

    def _folder(self, name: str) -> Path:
        folder = (self.workspace_dir / name).resolve()
        if not folder.is_relative_to(self.workspace_dir.resolve()):
            raise RuntimeError(f"{name!r} lies outside the workspace {self.workspace_dir}")
        return folder

    def _existing(self, name: str) -> Path:
        folder = self._folder(name)
        if not folder.is_dir():
            raise RuntimeError(f"{folder} does not exist: clone_to_workspace({name!r}) first")
        return folder

    def _git(self, *args: str, cwd: Path) -> str:
        return _output(self._run(["git", *args], cwd), args[0], cwd)

    def _git_with_login(self, *args: str, cwd: Path) -> str:
        """Run git with the password, which no clone keeps: an agent that works in it must not read it."""
        login = {"OPENENV_GIT_USERNAME": self.username, "OPENENV_GIT_PASSWORD": self.password}
        return _output(self._run(["git", "-c", f"credential.helper={_LOGIN}", *args], cwd, login), args[0], cwd)

    def _run(
        self, command: list[str], folder: Path, environment: Mapping[str, str] = MappingProxyType({})
    ) -> "subprocess.CompletedProcess[str]":
        settings = {"GIT_CONFIG_GLOBAL": str(self._settings), "GIT_TERMINAL_PROMPT": "0"}
        variables = {**os.environ, **environment, **settings}
        try:
            return subprocess.run(
                command,
                cwd=folder,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=_GIT_TIMEOUT_S,
                check=False,
                env=variables,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RuntimeError(f"{' '.join(command[:2])} failed in {folder}: {error}") from error

    def _get(self, path: str) -> Any:
        import httpx  # keeps `import openenv.integrations.tools` light

        from openenv.core.net.http_clients import http_client  # likewise

        url = f"{self.gitea_url}/api/v1/{path}"
        try:
            with http_client(url, auth=(self.username, self.password), timeout=_REQUEST_TIMEOUT_S) as http:
                response = http.get(url)
            response.raise_for_status()
        except httpx.HTTPError as error:
            raise RuntimeError(f"{url}: {error}") from error
        return response.json()


def _output(done: "subprocess.CompletedProcess[str]", command: str, folder: Path) -> str:
    if done.returncode != 0:
        raise RuntimeError(f"git {command} failed in {folder}: {done.stderr.strip()}")
    return done.stdout
