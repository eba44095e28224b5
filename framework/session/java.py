"""The Java that runs Spark, or an error with the version to install."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from framework.foundation.errors import UserError

OLDEST_MAJOR = 17
_TIMEOUT_SECONDS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A supported Java: the program with links resolved, and its full version."""

    program: str
    version: str


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """Return the Java that Spark would use: that of JAVA_HOME, else the first one on the PATH.

    Its version is read from the `release` file of the installation; `java -version` runs only without that file.

    Raises:
        UserError: JAVA_NOT_FOUND, or JAVA_TOO_OLD.
    """
    variables = os.environ if environment is None else environment
    home = variables.get("JAVA_HOME", "")
    wanted = str(Path(home) / "bin" / "java") if home else "java"
    found = shutil.which(wanted, path=variables.get("PATH", os.defpath))
    if found is None:
        reason = f"JAVA_HOME is {home}, which does not contain bin/java" if home else "`java` is not on the PATH"
        raise UserError("JAVA_NOT_FOUND", reason=reason, oldest=OLDEST_MAJOR)
    program = Path(found).resolve()
    version = _version_of_release(program) or _reported_version(program)
    if major_version(version) < OLDEST_MAJOR:
        raise UserError("JAVA_TOO_OLD", program=str(program), version=version or "unknown", oldest=OLDEST_MAJOR)
    return Java(program=str(program), version=version)


def major_version(version: str) -> int:
    """Return the major version of a full version; 0 for an invalid one.

    Examples:
        >>> major_version("17.0.15"), major_version("1.8.0_402"), major_version("21-ea"), major_version("")
        (17, 8, 21, 0)
    """
    numbers = [int(number) for number in re.findall(r"\d+", version)[:2]]
    if not numbers:
        return 0
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def _version_of_release(program: Path) -> str:
    release = program.parent.parent / "release"
    try:
        text = release.read_text(encoding="utf-8")
    except OSError:
        return ""
    match = re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE)
    return match.group(1) if match else ""


def _reported_version(program: Path) -> str:
    try:
        answer = subprocess.run(  # noqa: S603 - the user's own Java
            [str(program), "-version"], capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    match = re.search(r'version "([^"]+)"', answer.stderr)
    return match.group(1) if match else ""
