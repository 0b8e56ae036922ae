"""Small executables that stand in for kubectl, uv and git: they log their calls and run the echo server.

`python fake_tools.py TOOL ARGS...`; the folder of their log and state is in FAKE_TOOLS. A file `<tool>.fails` there
makes the tool fail with that file's text.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(os.environ.get("FAKE_TOOLS", "."))
SERVER = [sys.executable, "-m", "openenv.envs.echo_env.server.app", "--host", "127.0.0.1", "--port"]


def install(folder: Path) -> Path:
    """Make the executables. Returns the folder to put on PATH."""
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    for tool in ("kubectl", "uv", "git"):
        path = bin_folder / tool
        path.write_text(f'#!/bin/sh\nexec {sys.executable} {__file__} {tool} "$@"\n')
        path.chmod(0o755)
    return bin_folder


def calls(folder: Path, tool: str) -> list[list[str]]:
    """The arguments of each call so far."""
    log = folder / "calls.jsonl"
    rows = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return [row[1:] for row in rows if row[0] == tool]


def option(args: list[str], name: str) -> list[str]:
    """The values of `--name=value` among arguments."""
    return [arg.partition("=")[2] for arg in args if arg.startswith(f"--{name}=")]


def main(tool: str, *args: str) -> None:
    with (FOLDER / "calls.jsonl").open("a") as log:
        log.write(json.dumps([tool, *args]) + "\n")
    failing = FOLDER / f"{tool}.fails"
    if failing.exists():
        sys.exit(failing.read_text())
    {"kubectl": kubectl, "uv": uv, "git": git}[tool](list(args))


def kubectl(args: list[str]) -> None:
    args = [arg for arg in args if not arg.startswith(("--namespace", "--context"))]
    assert args[0] == "port-forward"
    forward(int(args[-1].split(":")[0]), state(args[-2].removeprefix("pod/"))["port"])


def uv(args: list[str]) -> None:
    if args == ["--version"]:
        print("uv 0")
        return
    if args[:2] == ["pip", "install"]:
        make_package(FOLDER / "site", "maze", url=args[-1].removeprefix("git+"))
        return
    port = args[args.index("--port") + 1]
    os.execv(SERVER[0], [*SERVER, port])


def make_package(site: Path, name: str, *, url: str | None = None, manifest: str = "spec_version: 1\n") -> None:
    """An installed distribution openenv-NAME, written for the published package: a client, an action, a manifest."""
    package, info = site / f"{name}_env", site / f"openenv_{name}-0.3.dist-info"
    package.mkdir(parents=True)
    info.mkdir()
    stem = name.capitalize()
    (package / "__init__.py").touch()
    (package / "openenv.yaml").write_text(f"name: {name}_env\ndescription: finds a way out\n{manifest}")
    (package / "client.py").write_text(
        "from openenv_core import EnvClient\n"
        "from openenv_core.client_types import StepResult\n"
        "from openenv_core.env_server.types import Action, State\n"
        f"class {stem}Action(Action):\n    message: str\n"
        f"class {stem}Env(EnvClient[{stem}Action, dict, State]):\n"
        "    def _step_payload(self, action): return {'message': action.message}\n"
        "    def _parse_result(self, payload): return StepResult(payload['observation'])\n"
        "    def _parse_state(self, payload): return State(**payload)\n"
    )
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: openenv-{name}\nVersion: 0.3\n")
    if url is not None:
        (info / "direct_url.json").write_text(json.dumps({"url": url, "vcs_info": {"vcs": "git"}}))


def git(args: list[str]) -> None:
    assert args[:2] == ["clone", "--depth=1"]
    (Path(args[-1]) / "pyproject.toml").touch()


def start_server(name: str, port: int, env: list[str], *, crashes: bool = False) -> None:
    from openenv.hosting.server_process import free_port

    port = port or free_port()
    crash = [sys.executable, "-c", "import sys; sys.exit('no module named game')"]
    command = crash if crashes else [*SERVER, str(port)]
    with (FOLDER / f"{name}.log").open("w") as log:
        variables = {**os.environ, **dict(pair.split("=", 1) for pair in env)}
        process = subprocess.Popen(command, stdout=log, stderr=log, env=variables, start_new_session=True)
    (FOLDER / f"{name}.json").write_text(json.dumps({"pid": process.pid, "port": port}))


def state(name: str) -> dict[str, int]:
    path = FOLDER / f"{name}.json"
    if not path.exists():
        sys.exit(f"Error response from daemon: No such container: {name}")
    found: dict[str, int] = json.loads(path.read_text())
    return found


def stop_server(name: str, *, forget: bool, what: str) -> None:
    pid = state(name)["pid"]
    if is_alive(pid):
        os.kill(pid, signal.SIGTERM)
    while is_alive(pid):
        time.sleep(0.01)
    if forget:
        (FOLDER / f"{name}.json").unlink()
    print(f"{what} {name} deleted")


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that has ended without being waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def forward(port: int, target: int) -> None:
    """Pass connections on, as `kubectl port-forward` does, until killed."""
    import socket
    import threading

    def pump(source: socket.socket, sink: socket.socket) -> None:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.close()

    listener = socket.create_server(("127.0.0.1", port))
    while True:
        client, _ = listener.accept()
        try:
            server = socket.create_connection(("127.0.0.1", target))
        except OSError:  # the server is not up yet
            client.close()
            continue
        for source, sink in ((client, server), (server, client)):
            threading.Thread(target=pump, args=(source, sink), daemon=True).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
