"""What docs/rubrics.md shows is true, and rubrics are light to import."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "rubrics.md"


def test_the_pages_example_prints_what_its_comments_state():
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    printed = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, check=True).stdout
    comments = re.findall(r"(?:^|  )# (.+)$", example, re.MULTILINE)
    assert printed.splitlines() == comments
    assert len(comments) == 2


def test_importing_rubrics_loads_no_http_client_and_no_server():
    code = "import sys, openenv.rubrics; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "openenv.rubrics.llm_judge" in loaded
    assert not {"httpx", "fastapi", "uvicorn", "torch", "numpy"} & set(loaded)
