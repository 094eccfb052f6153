"""The pages that use torch say what works."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize(("name", "count"), [("train", 4), ("pipelines", 2)])
def test_the_code_of_the_page_runs(name: str, count: int, tmp_path: Path) -> None:
    text = (ROOT / "docs" / "how-to" / f"{name}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert len(blocks) == count
    script = tmp_path / "page.py"
    script.write_text(
        f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n" + "\n".join(blocks), encoding="utf-8"
    )
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
