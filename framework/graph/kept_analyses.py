"""Kept analyses: what Spark found out about the queries that the engine generates, from update to update.

Spark analyses a query in tens of milliseconds, and an ingestion of 200 tables has 400 queries, of which an update runs
a few. A generated query depends on known values only, so an update whose values are equal uses the analysis of an
earlier one. A query of a user may depend on anything, and is analysed in each update.
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
        key: identifies everything that it depends on but the stored table; see `KnownAnalyses`.
        stored: JSON of the schema of the stored table; None if there was none.
        content: what Spark found out, as JSON; see `analysis_content`.
    """

    key: str
    stored: str | None
    content: Mapping[str, Any]

    def holds(self, key: str, stored: str | None) -> bool:
        """Whether an analysis would have the same result now.

        A table that was created or changed as the analysis wants it has the schema of the result. A second analysis
        against this schema adds nothing to it.
        """
        return key == self.key and stored in {self.stored, self.content["table_schema"]}


def read_analyses(text: str | None) -> dict[QualifiedName, KeptAnalysis]:
    """Return the analyses of a text of `analyses_text`; {} for anything else, so that all queries are analysed."""
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
