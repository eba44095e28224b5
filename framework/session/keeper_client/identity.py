"""The identity of a session: its start options. A command uses a session only if it would start an equal one."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

# Variables of the terminal, and those that PySpark sets in its own process.
_WITHOUT_EFFECT = frozenset(
    {
        "_",
        "COLORTERM",
        "COLUMNS",
        "DISPLAY",
        "GPG_TTY",
        "LINES",
        "LS_COLORS",
        "OLDPWD",
        "PWD",
        "SHLVL",
        "SSH_AUTH_SOCK",
        "SSH_CLIENT",
        "SSH_CONNECTION",
        "SSH_TTY",
        "STY",
        "TERM",
        "TERM_PROGRAM",
        "TERM_PROGRAM_VERSION",
        "TERM_SESSION_ID",
        "TMUX",
        "TMUX_PANE",
        "WINDOWID",
        "NO_COLOR",
        "FORCE_COLOR",
        "PYTEST_CURRENT_TEST",
        "SPARK_AUTH_SOCKET_TIMEOUT",
        "SPARK_BUFFER_SIZE",
    }
)
_OF_THE_COMMAND = "SLUICE_"  # only the command itself reads these


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionIdentity:
    """Everything that decides what a new session would be.

    Args:
        folder: the working directory, in which relative paths are resolved.
        inode: the device and number of that folder, because a folder may be deleted and created again.
        versions: the versions of Sluice and PySpark.
        python: the program of this Python, which also runs Python workers.
        java: the Java, its version, and where it was found.
        jars: the jars of the class path, each with its size and time.
        settings: Spark's settings, without the name of the application.
        salt: makes the digests of two sessions differ, so that they reveal no value.
        environment: a digest of each environment variable that the JVM or a Python worker may read.
    """

    folder: str
    inode: str
    versions: str
    python: str
    java: str
    jars: tuple[str, ...]
    settings: Mapping[str, str]
    salt: str
    environment: Mapping[str, str]

    @classmethod
    def of_this_process(cls, *, java: str, jars: tuple[str, ...], settings: Mapping[str, str], salt: str) -> Self:
        """Return the identity of a session that this process would start now."""
        status = Path.cwd().stat()
        return cls(
            folder=str(Path.cwd()),
            inode=f"{status.st_dev}:{status.st_ino}",
            versions=f"{version('sluice-spark')} {version('pyspark')}",
            python=f"{sys.executable} {sys.version}",
            java=java,
            jars=tuple(_stamped(jar) for jar in jars),
            settings=dict(settings),
            salt=salt,
            environment={name: _digest(salt, value) for name, value in os.environ.items() if _matters(name)},
        )

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return the identity from the values of `to_json`."""
        return cls(**{**values, "jars": tuple(values["jars"])})

    def to_json(self) -> dict[str, Any]:
        """Return the identity as JSON values."""
        return asdict(self)

    def differences(self, other: SessionIdentity) -> tuple[str, ...]:
        """Return what differs from another identity, apart from the settings, in words for users."""
        found = [
            what
            for what, mine, theirs in (
                ("another working directory", (self.folder, self.inode), (other.folder, other.inode)),
                ("another version of Sluice or PySpark", self.versions, other.versions),
                ("another Python", self.python, other.python),
                ("another Java", self.java, other.java),
                ("other jars", self.jars, other.jars),
            )
            if mine != theirs
        ]
        names = ", ".join(sorted(_changed(self.environment, other.environment)))
        return (*found, *([f"other values of environment variables ({names})"] if names else []))

    def changed_settings(self, wanted: SessionIdentity) -> dict[str, str | None]:
        """Return the settings of another identity that differ from these; None for one that it does not set."""
        return {name: wanted.settings.get(name) for name in _changed(self.settings, wanted.settings)}


def _changed(mine: Mapping[str, str], theirs: Mapping[str, str]) -> set[str]:
    return {name for name in (*mine, *theirs) if mine.get(name) != theirs.get(name)}


def _matters(name: str) -> bool:
    return name not in _WITHOUT_EFFECT and not name.startswith(_OF_THE_COMMAND)


def _digest(salt: str, value: str) -> str:
    return hashlib.sha256(f"{salt}{value}".encode(errors="surrogateescape")).hexdigest()


def _stamped(jar: str) -> str:
    try:
        status = Path(jar).stat()
    except OSError:
        return jar
    return f"{jar} {status.st_size} {status.st_mtime_ns}"
