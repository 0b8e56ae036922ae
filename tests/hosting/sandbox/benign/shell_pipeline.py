"""Runs a pipeline of the shell, and a script that it has written."""

import os
import subprocess
from pathlib import Path

assert subprocess.run("echo ok | cat", shell=True, capture_output=True, text=True, check=True).stdout == "ok\n"
Path("script.sh").write_text("#!/bin/sh\necho ok\n")
os.chmod("script.sh", 0o700)
os.execv("./script.sh", ["script.sh"])
