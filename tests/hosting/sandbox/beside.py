"""`python -m tests.hosting.sandbox.beside LEVEL` runs a program in a sandbox, beside another one.

The program is its standard input.

It prints, as JSON, how the program ended, and whether the other sandbox could start a process after that.
"""

import json
import sys
from dataclasses import replace
from typing import Literal

from openenv.hosting.sandbox.box_spec import BoxSpec
from openenv.hosting.sandbox.limits import SandboxLimits
from openenv.hosting.sandbox.program import run_program
from openenv.hosting.sandbox.python_files import with_python
from openenv.hosting.sandbox.sandbox import SandboxHost

LIMITS = SandboxLimits(memory_bytes=200 << 20, processes=16, session_bytes=64 << 20, session_files=500)
_NEIGHBOUR = """
import subprocess
print("ready", flush=True)
input()
print(subprocess.run(["/bin/echo", "started"], stdout=subprocess.PIPE).stdout.decode(), flush=True)
"""


def main(level: Literal["namespaces", "landlock"]) -> None:
    """Run the program, for ten seconds at most."""
    directories = ("/app", "/data") if level == "namespaces" else ()
    with SandboxHost(level) as host, host.start(_running(_NEIGHBOUR)) as neighbour:
        neighbour.stdout.readline()
        result = run_program(host, replace(_running(sys.stdin.read()), directories=directories), seconds=10)
        neighbour.stdin.write(b"\n")
        started = neighbour.stdout.readline().strip().decode()
    print(json.dumps({"reason": result.reason, "stdout": result.stdout.decode(), "neighbour": started}))


def _running(code: str) -> BoxSpec:
    return with_python(BoxSpec(command=("python", "-c", code), limits=LIMITS))


if __name__ == "__main__":
    main(sys.argv[1])  # type: ignore[arg-type]
