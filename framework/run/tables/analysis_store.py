"""The file with the kept analyses of a pipeline; without it, all queries are analysed again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from framework.foundation.files.storage import Storage
from framework.foundation.names import QualifiedName
from framework.graph.kept_analyses import KeptAnalysis, analyses_text, read_analyses


class AnalysisStore:
    """Reads and replaces the kept analyses of one pipeline.

    An analysis is used only if its key proves that a new analysis would have the same result. So a file that is
    missing, old, or written by another process costs time, but is never wrong.

    Args:
        storage: the pipeline's storage.
        pipeline: the pipeline's name; several pipelines may share a storage.
    """

    def __init__(self, storage: Storage, pipeline: str) -> None:
        self._storage = storage
        digest = hashlib.sha256(pipeline.encode()).hexdigest()[:16]  # a name may have any characters
        self._path = storage.path("analyses", f"{digest}.json")

    def read(self) -> dict[QualifiedName, KeptAnalysis]:
        """Return the kept analyses, by dataset."""
        return read_analyses(self._storage.read_text(self._path))

    def write(self, analyses: Mapping[QualifiedName, KeptAnalysis]) -> None:
        """Replace the kept analyses; if they are unchanged, nothing is written."""
        if _keys(analyses) != _keys(self.read()):
            self._storage.write_text(self._path, analyses_text(analyses))


def _keys(analyses: Mapping[QualifiedName, KeptAnalysis]) -> dict[QualifiedName, tuple[str, str | None]]:
    return {name: (kept.key, kept.stored) for name, kept in analyses.items()}
