"""A fake Java program: it has a version, and a test scripts its behaviour."""

from __future__ import annotations

from pathlib import Path


def install_java(home: Path, *, script: str = "exit 0", release: str | None = "17.0.15") -> Path:
    """Make `home` a JAVA_HOME whose `bin/java` runs a shell script; its `release` file may be missing."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    program.chmod(0o755)
    if release is not None:
        (home / "release").write_text(f'IMPLEMENTOR="Nobody"\nJAVA_VERSION="{release}"\n', "utf-8")
    return program
