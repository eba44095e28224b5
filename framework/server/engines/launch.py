"""How the process of a run is started, and what is known about it afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

DEFAULT_START_SECONDS = 600.0


class LauncherKind(StrEnum):
    """The kinds of launchers: on this machine, with another Spark master, by a command, as a Job of Kubernetes."""

    LOCAL = "local"
    SPARK = "spark"
    COMMAND = "command"
    KUBERNETES = "kubernetes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How a run is started. It is stored with the run, so that settings which change later don't lose its process.

    Args:
        kind: the kind of the launcher; a text, because a later release may know more of them.
        name: the launcher's name in the settings.
        start_within_seconds: how long a run may be silent before it claims its update.
        kubectl: the program with the options that select the cluster.
        job: the name of the Job.
        manifest: the Job, as JSON.
    """

    kind: str = LauncherKind.LOCAL
    name: str = LauncherKind.LOCAL
    start_within_seconds: float = DEFAULT_START_SECONDS
    kubectl: tuple[str, ...] = ()
    job: str = ""
    manifest: str = ""

    @property
    def is_here(self) -> bool:
        """Whether the engine is a process of this machine, and uses its memory."""
        return self.kind in {LauncherKind.LOCAL, LauncherKind.SPARK}


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """The process of a run lives, or will start: its command runs, or its Job exists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The process of a run has ended, and no other one starts.

    Args:
        code: its exit code; None if it is unknown.
        has_failed: whether it is certain that it has failed.
        why: what the launcher says about it.
    """

    code: int | None = None
    has_failed: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """Only the storage can tell whether a run has started."""

    reason: str


Sight = Running | Ended | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """A started process: its machine, its id, and its start time, which distinguishes it from a later one."""

    host: str
    pid: int
    pid_started: str
