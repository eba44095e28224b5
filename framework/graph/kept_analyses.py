"""Kept analyses: Spark's analyses of generated queries, reused by later updates.

Spark analyses a query in tens of milliseconds. An ingestion of 200 tables has 400 queries, of which an update runs a
few. A generated query depends on known values only, so an update with equal values reuses an earlier analysis. A
user's query may depend on anything, and is analysed in each update.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from framework.foundation.files.stored_format import StoredFormat
from framework.foundation.names import QualifiedName

_FORMAT = StoredFormat(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptAnalysis:
    """The analysis of a dataset with generated queries.

    Args:
        key: identifies all that the analysis depends on, except the stored table; see `KnownAnalyses`.
        stored: JSON of the schema of the stored table; None if there was none.
        content: the result of Spark's analysis, as JSON; see `analysis_content`.
    """

    key: str
    stored: str | None
    content: Mapping[str, Any]

    def holds(self, key: str, stored: str | None) -> bool:
        """Whether a new analysis would have the same result.

        It has for the same stored schema, and for a table that was since created or changed to the resulting schema: a
        new analysis against that schema adds nothing to it.
        """
        return key == self.key and stored in {self.stored, self.content["table_schema"]}


def read_analyses(text: str | None) -> dict[QualifiedName, KeptAnalysis]:
    """Return the analyses in a text of `analyses_text`; {} for any other text, so that all queries are analysed."""
    try:
        return {
            QualifiedName(**each["dataset"]): KeptAnalysis(
                key=each["key"], stored=each["stored"], content=each["content"]
            )
            for each in _FORMAT.cached(text, "analyses") or ()
        }
    except (TypeError, KeyError):
        return {}


def analyses_text(analyses: Mapping[QualifiedName, KeptAnalysis]) -> str:
    """Return analyses as JSON."""
    rows = [
        {"dataset": asdict(name), "key": kept.key, "stored": kept.stored, "content": kept.content}
        for name, kept in analyses.items()
    ]
    return _FORMAT.text({"analyses": rows})
