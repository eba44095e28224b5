"""The Java of a benchmark."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench import __main__ as bench
from bench.results import describe_environment
from framework.session.java import packaged_java


def test_benchmarks_run_on_the_java_of_sluice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is JAVA_HOME of all processes, the results name its version, and a machine without `java` is sufficient."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", "")
    with pytest.raises(SystemExit):
        bench.main(["no-such-benchmark"])
    home = packaged_java()
    assert home is not None
    assert Path(os.environ["JAVA_HOME"]).samefile(home)
    release = (home / "release").read_text("utf-8")
    version = describe_environment()["versions"].split("Java ")[1].split(",")[0]
    assert f'JAVA_VERSION="{version}"' in release
