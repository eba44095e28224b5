"""Files beside specs, which are read again when they or the spec have changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from framework.declare.pipeline_spec import PipelineSpec
from framework.foundation.errors import SluiceError

_Content = TypeVar("_Content")


@dataclass(frozen=True, slots=True)
class _Known(Generic[_Content]):
    spec: PipelineSpec
    changed: int
    content: _Content | None = None
    fault: SluiceError | None = None


class FileTimes(Generic[_Content]):
    """The content of one file for each pipeline, as last read.

    Args:
        place: returns the place of the file of a spec; None for a spec without a file.
        read: reads it.
    """

    def __init__(self, place: Callable[[PipelineSpec], Path | None], read: Callable[[PipelineSpec], _Content]) -> None:
        self._place = place
        self._read = read
        self._known: dict[str, _Known[_Content]] = {}

    def read(self, pipeline_id: str, spec: PipelineSpec) -> _Content:
        """Return the content for a pipeline.

        Raises:
            SluiceError: it is wrong; it is not read again before it changes.
        """
        changed = _changed(self._place(spec))
        known = self._known.get(pipeline_id)
        if known is None or known.spec is not spec or known.changed != changed:
            try:
                known = _Known(spec, changed, content=self._read(spec))
            except SluiceError as error:
                known = _Known(spec, changed, fault=error)
            self._known[pipeline_id] = known
        if known.fault is not None:
            raise known.fault
        assert known.content is not None  # one of both is set
        return known.content


def _changed(file: Path | None) -> int:
    try:
        return -1 if file is None else file.stat().st_mtime_ns
    except OSError:
        return -1
