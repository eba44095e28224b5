"""The tests of the page's pure modules, by Node's own runner."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

_MODULES = Path(__file__).parent / "modules"


def test_pure_modules_pass_their_tests() -> None:
    """Layout, selection, texts and states pass `node --test`; without Node they are skipped."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed: `apt-get install nodejs`")
    files = sorted(map(str, _MODULES.glob("*.test.mjs")))
    run = subprocess.run([node, "--test", *files], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
    assert "# fail 0" in run.stdout.splitlines()
