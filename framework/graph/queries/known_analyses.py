"""The analyses that a resolution may reuse: checks which earlier ones are valid, and keeps them for the next one."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pyspark.version import __version__ as spark_version

from framework.declare.registry import GeneratedQuery
from framework.declare.specs import DatasetSpec, FlowSpec
from framework.engine.sessions.session import settings_text
from framework.foundation.names import QualifiedName
from framework.graph.graph import GraphDataset, GraphFlow
from framework.graph.kept_analyses import KeptAnalysis
from framework.graph.queries.analysis_content import analysis_content, dataset_of, flows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The packages whose code creates or reads an analysis.
_ROOMS = ("cdc", "declare", "engine", "foundation", "graph", "ingest", "sources")
_SETTINGS = ("spark.sql.", "spark.databricks.")
_TEMPORARY = "spark.sql.warehouse.dir="  # another folder in each process, irrelevant to generated queries
_ENTRY = re.compile(r", (?=spark\.)")

DatasetOf = Callable[[QualifiedName], GraphDataset | None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnownAnalyses:
    """The analyses of datasets that have generated queries only.

    Args:
        session: the settings of the session that may change a result; see `analysis_settings`.
        generated: the generated queries, by flow.
        kept: the analyses of earlier updates, by dataset.
        used: the reused and the new analyses, to be kept for the next update.
    """

    session: str
    generated: Mapping[QualifiedName, GeneratedQuery]
    kept: Mapping[QualifiedName, KeptAnalysis]
    used: dict[QualifiedName, KeptAnalysis] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        generated: Mapping[QualifiedName, GeneratedQuery],
        kept: Mapping[QualifiedName, KeptAnalysis],
    ) -> Self:
        """Return the analyses for a resolution; the session's settings are read only if there are generated queries."""
        return cls(session=analysis_settings(spark) if generated else "", generated=generated, kept=kept)

    def key(self, spec: DatasetSpec, flows: Sequence[FlowSpec], dataset_of: DatasetOf) -> str | None:
        """Return the key of a dataset's analysis; None if it has a user's query, or reads a faulty dataset.

        The key covers all that the analysis depends on, except the stored table: the declarations, the queries, the
        schemas of the datasets that they read, the settings of the session, the version of Spark, and our own code.

        Args:
            spec: the declaration of the dataset.
            flows: the flows into it.
            dataset_of: resolves a dataset.
        """
        queries = [self.generated[flow.name] for flow in flows if flow.name in self.generated]
        if not queries or len(queries) < len(flows):
            return None
        read = [dataset_of(name) for name in dict.fromkeys(name for query in queries for name in query.reads)]
        inputs = [each for each in read if each is not None and not each.is_unresolved]
        if len(inputs) < len(read):
            return None
        parts = (
            spark_version,
            _code_version(),
            self.session,
            repr(replace(spec, location=None)),
            *(repr(replace(flow, location=None)) for flow in flows),
            *(query.text for query in queries),
            *(f"{each.name} {each.kind} {each.schema} {each.spec.partition_columns}" for each in inputs),
        )
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]

    def recall(
        self, key: str | None, stored: str | None, spec: DatasetSpec, flows: Sequence[FlowSpec]
    ) -> tuple[GraphDataset, tuple[GraphFlow, ...]] | None:
        """Return the dataset and its flows from an earlier update's analysis; None if they must be analysed.

        Args:
            key: the result of `key`.
            stored: JSON of the schema of the stored table; None if there is none.
            spec: the present declaration of the dataset.
            flows: the present declarations of its flows.
        """
        found = self.kept.get(spec.name)
        if key is None or found is None or not found.holds(key, stored):
            return None
        self.used[spec.name] = found
        return dataset_of(found.content, spec), flows_of(found.content, flows)

    def keep(self, key: str | None, stored: str | None, dataset: GraphDataset, flows: Sequence[GraphFlow]) -> None:
        """Keep a new analysis of a dataset without a fault, if the dataset has a key."""
        if key is not None:
            self.used[dataset.name] = KeptAnalysis(key=key, stored=stored, content=analysis_content(dataset, flows))


def analysis_settings(spark: SparkSession) -> str:
    """Return the settings of a session that may change an analysis, all read in one call."""
    text = settings_text(spark)
    entries = sorted(entry for entry in _ENTRY.split(text.strip("{}")) if entry.startswith(_SETTINGS))
    return ", ".join(entry for entry in entries if not entry.startswith(_TEMPORARY))


@cache
def _code_version() -> str:
    """Return a hash of our own source, because another release may analyse differently."""
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in source_files())).hexdigest()


def source_files() -> list[Path]:
    """Return the source files of the packages that create or read analyses."""
    root = next(each for each in Path(__file__).parents if each.name == "framework")
    return sorted(path for room in _ROOMS for path in (root / room).rglob("*.py"))
