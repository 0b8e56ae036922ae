"""The whole examples of docs/write.md run as they are printed: the file, then each command below it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

PAGE = Path(__file__).parents[2] / "docs/write.md"
_EXAMPLE = re.compile(r"`(\w+\.py)`:\n\n```python\n(.*?)^```\n```bash\n(.*?)^```", re.DOTALL | re.MULTILINE)
EXAMPLES = {name: (code, commands) for name, code, commands in _EXAMPLE.findall(PAGE.read_text(encoding="utf-8"))}


@pytest.mark.parametrize("name", ["point_mass.py", "library.py"])
def test_the_commands_of_an_example_run_as_they_are_printed(name: str, tmp_path: Path) -> None:
    code, commands = EXAMPLES[name]
    (tmp_path / name).write_text(code, encoding="utf-8")
    programs = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}

    for command in commands.splitlines():
        ran = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env={**os.environ, **programs}, capture_output=True, text=True
        )
        assert ran.returncode == 0, f"{command}: {ran.stdout}{ran.stderr}"
