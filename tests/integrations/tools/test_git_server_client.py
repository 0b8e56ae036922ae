"""Repositories of a Gitea server become working folders; the server here is a small one of the test's own."""

import base64
import json
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from openenv.integrations.tools import GitServerClient

pytestmark = [pytest.mark.finding("every public name of the published package exists here"), pytest.mark.process]

LOGIN = "Basic " + base64.b64encode(b"agent:s3/cret").decode()


class Gitea(SimpleHTTPRequestHandler):
    """Answers the API and, as a folder of files, git."""

    def do_GET(self):
        if self.headers.get("Authorization") != LOGIN:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="Gitea"')
            self.end_headers()
        elif self.path == "/api/v1/version":
            self._send({"version": "1.22"})
        elif self.path.startswith("/api/v1/user/repos"):
            repo = {
                "name": "sums",
                "full_name": "agent/sums",
                "clone_url": "http://x/agent/sums.git",
                "description": None,
            }
            self._send([repo] if self.path.endswith("page=1") else [])
        else:
            super().do_GET()

    def _send(self, answer):
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def git(folder, *args):
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
    done = subprocess.run(["git", *identity, *args], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture(scope="module")
def commits(tmp_path_factory):
    """The folder of the served repositories, and the two commits of `agent/sums`."""
    root = tmp_path_factory.mktemp("gitea")
    work = tmp_path_factory.mktemp("work")
    git(work, "init")
    made = []
    for text in ("one", "two"):
        (work / "file.txt").write_text(text)
        git(work, "add", ".")
        git(work, "commit", "-m", text)
        made.append(git(work, "rev-parse", "HEAD"))
    git(root, "clone", "--bare", str(work), "agent/sums.git")
    git(root / "agent" / "sums.git", "update-server-info")
    git(work, "branch", "-m", "trunk")
    git(root, "clone", "--bare", str(work), "agent/trunk.git")
    git(root / "agent" / "trunk.git", "update-server-info")
    return root, made


@pytest.fixture
def client(commits, tmp_path):
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Gitea, directory=str(commits[0])))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield GitServerClient(f"http://127.0.0.1:{server.server_port}/", "agent", "s3/cret", str(tmp_path / "workspace"))
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_server_that_answers_is_ready_and_lists_its_repositories(client):
    assert client.wait_for_ready(5)
    assert [repo["full_name"] for repo in client.list_repositories()] == ["agent/sums"]


def test_a_server_that_does_not_answer_is_not_ready(tmp_path):
    assert not GitServerClient("http://127.0.0.1:9", "a", "b", str(tmp_path)).wait_for_ready(1)


def test_a_repository_is_cloned_at_a_commit_and_reset_between_tasks(client, commits):
    first, second = commits[1]
    folder = client.workspace_dir / "task"
    assert client.clone_to_workspace("sums", "task", commit=first) == str(folder)
    assert client.get_current_commit("task") == first

    (folder / "file.txt").write_text("changed")
    (folder / "left").write_text("behind")
    assert client.reset_workspace("task", commit=second)
    assert ((folder / "file.txt").read_text(), (folder / "left").exists()) == ("two", False)
    assert client.workspace_exists("task")
    assert not client.workspace_exists("other")


def test_a_clone_has_the_default_branch_of_the_server(client):
    client.clone_to_workspace("trunk")

    assert client.execute_git_command("branch --show-current", "trunk") == (0, "trunk\n", "")


def test_a_commit_has_the_users_name_or_the_repositorys(client):
    client.workspace_dir.joinpath("own").mkdir()
    client.execute_git_command("init", "own")
    client.execute_git_command("commit --allow-empty -m one", "own")
    client.execute_git_command("config user.name Bob", "own")
    client.execute_git_command("commit --allow-empty -m two", "own")

    _, log, _ = client.execute_git_command("log --format='%an %ae %D'", "own")
    assert log == "Bob agent@local.env HEAD -> main\nagent agent@local.env \n"
    assert client.workspace_exists("own")


def test_a_command_in_a_folder_that_does_not_exist_fails(client):
    code, output, error = client.execute_git_command("status", "nothing")

    assert (code, output) == (1, "")
    assert "nothing does not exist" in error


def test_an_agent_in_a_clone_reads_no_password_and_leaves_no_commit(client):
    folder = client.workspace_dir / "sums"
    client.clone_to_workspace("sums")
    head = client.get_current_commit("sums")
    assert "s3" not in client.execute_git_command("remote -v", "sums")[1] + (folder / ".git/config").read_text()

    (folder / "file.txt").write_text("three")
    assert client.execute_git_command("commit -am three", "sums")[0] == 0
    client.reset_workspace("sums", commit="main")
    assert client.get_current_commit("sums") == head
    with pytest.raises(RuntimeError, match="workspace itself"):
        client.clone_to_workspace("sums", ".")


def test_a_git_command_runs_in_the_workspace(client):
    client.clone_to_workspace("sums")

    assert client.execute_git_command("log --format=%s", "sums") == (0, "two\none\n", "")
    assert client.execute_git_command("show no-such-thing", "sums")[0] != 0


def test_errors_name_the_reason_and_hide_the_password(client):
    with pytest.raises(RuntimeError, match="git clone failed") as failed:
        client.clone_to_workspace("nothing")
    assert "s3" not in str(failed.value)
    with pytest.raises(RuntimeError, match="clone_to_workspace"):
        client.reset_workspace("nothing")
    with pytest.raises(RuntimeError, match="outside the workspace"):
        client.execute_git_command("status", "../..")
