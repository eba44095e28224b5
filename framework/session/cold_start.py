"""The duration of the last start of Spark in this process, for the command line's hint at sessions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdStart:
    """A start of Spark.

    Args:
        seconds: the time that it took.
        refusal: why the session that is ready for this folder could not be used; None if none is ready.
    """

    seconds: float
    refusal: str | None


_starts: list[ColdStart] = []
_connectors: dict[str, str] = {}


def record_cold_start(start: ColdStart) -> None:
    """Remember a start of Spark."""
    _starts.append(start)


def take_cold_start() -> ColdStart | None:
    """Return the last start of Spark in this process, once; None if there was none since the last call."""
    last = _starts[-1] if _starts else None
    _starts.clear()
    return last


def record_connector(name: str, words: str) -> None:
    """Remember what was done about the package of a format, as a sentence."""
    _connectors[name] = words


def take_connectors() -> tuple[str, ...]:
    """Return the sentences about packages of formats, once; () if there were none since the last call."""
    found = tuple(_connectors.values())
    _connectors.clear()
    return found
