"""Runs in a sandbox: starts an agent's program there, and passes its connections on to the endpoint outside.

The sandbox has a network of its own, with nothing in it. What is listened to here is the endpoint's port, so that its
addresses are the same inside. Arguments: the path of the endpoint's Unix socket, its port, and the command.
"""

import contextlib
import socket
import subprocess
import sys
import threading


def _pump(source: socket.socket, target: socket.socket) -> None:
    """Pass on what comes, up to its end."""
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _connect(near: socket.socket, path: str) -> None:
    """Pass on what both sides of a connection write."""
    with near, socket.socket(socket.AF_UNIX) as far:
        far.connect(path)
        back = threading.Thread(target=_pump, args=(far, near), daemon=True)
        back.start()
        _pump(near, far)
        back.join()


def _accept(listener: socket.socket, path: str) -> None:
    while True:
        near, _ = listener.accept()
        threading.Thread(target=_connect, args=(near, path), daemon=True).start()


def main() -> int:
    """Run the command. Returns its exit code, as a shell would."""
    path, port, *command = sys.argv[1:]
    listener = socket.create_server(("127.0.0.1", int(port)), backlog=128)
    threading.Thread(target=_accept, args=(listener, path), daemon=True).start()
    try:
        code = subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        return 127
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(main())
