"""An analysed query, and its conversion to a flow of the graph."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from framework.declare.specs import DatasetKind, DatasetSpec, FlowSpec
from framework.engine.plans.relations import batch_paths
from framework.foundation.errors import UserError
from framework.foundation.names import QualifiedName
from framework.graph.graph import GraphFlow, Read
from framework.graph.queries.calls import SPARK_ERRORS
from framework.graph.queries.fingerprints import plan_fingerprint
from framework.graph.queries.operators import check_streaming, count_sources, stateful_operators
from framework.graph.queries.settings import SessionSettings
from framework.graph.queries.source_filters import source_names, with_conditions
from framework.sources.kinds import streamed_sources
from framework.sources.port import SourceShape

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_STORED = frozenset({DatasetKind.TABLE, DatasetKind.STREAMING_TABLE, DatasetKind.MATERIALIZED_VIEW})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AnalysedQuery:
    """The query of a flow over stand-ins, built with the flow's settings.

    Args:
        frame: the query.
        flow: the declaration of the flow.
        target: the declaration of its target.
        reads: the reads made by its function.
        settings: the Spark settings of the flow, in use.
        views: the temporary views that it reads, directly or through other views, with their queries.
    """

    frame: DataFrame
    flow: FlowSpec
    target: DatasetSpec
    reads: tuple[Read, ...]
    settings: SessionSettings
    views: Sequence[tuple[DatasetSpec, DataFrame]]

    def graph_flow(
        self,
        specs: Mapping[QualifiedName, DatasetSpec],
        code_version: str | None,
        file_identity: Callable[[list[str]], str | None],
    ) -> GraphFlow:
        """Return the flow of the graph.

        Args:
            specs: the declared datasets.
            code_version: hash of the modules' source; None if it is unknown.
            file_identity: see `plan_fingerprint`.

        Raises:
            UserError: DUPLICATE_COLUMNS, and as `check_streaming`.
        """
        frame, is_view = self.frame, self.target.kind is DatasetKind.TEMPORARY_VIEW
        sources = streamed_sources(frame) if frame.isStreaming else ()
        tables = {str(source.location) for source in sources if source.shape is SourceShape.TABLE}
        streamed = (
            Read(text=str(source.location), streaming=True, path=str(source.location), begins=source.begins)
            for source in sources
            if source.shape is SourceShape.TABLE
        )
        # The flow's plan includes the reads by path of its views, once for each use of a source.
        by_name = (read for read in self.reads if not (read.streaming and read.text == read.path in tables))
        reads = (*by_name, *streamed)
        has_checkpoint = frame.isStreaming and not is_view
        if self.target.kind in _STORED and self.flow.cdc is None:
            _check_names(frame, self.flow)
        if has_checkpoint and not self.flow.once:
            check_streaming(frame, self.flow)
        count = count_sources(frame) if has_checkpoint else None
        return GraphFlow(
            spec=self.flow,
            # Conditions in a view belong to the flows that read the view.
            reads=reads if is_view else with_conditions(reads, frame, sources, specs),
            streaming=frame.isStreaming,
            fingerprint=self._fingerprint(code_version, file_identity),
            schema=frame.schema.json(),
            sources=tuple(source for source in sources if source.shape is not SourceShape.TABLE),
            batch_paths=batch_paths(frame),
            operators=stateful_operators(frame) if has_checkpoint else None,
            source_count=count,
            source_names=source_names(frame, sources, specs, count) if has_checkpoint else (),
        )

    def _fingerprint(self, code_version: str | None, file_identity: Callable[[list[str]], str | None]) -> str | None:
        """Return the fingerprint of a query whose result is compared between updates; None for any other query."""
        kinds = {DatasetKind.TABLE, DatasetKind.MATERIALIZED_VIEW}
        if not self.flow.once and self.flow.cdc is None:  # a grouped stream is the query of a view (ADR 74)
            kinds.add(DatasetKind.STREAMING_TABLE)
        if self.frame.isStreaming or not (self.target.kind in kinds or self.flow.from_snapshots):
            return None
        checked = ((self.target, self.frame), *self.views)
        expectations = [each for spec, _ in checked for each in spec.expectations]
        try:
            conditions = [
                frame.select(*(sql.expr(text) for each in spec.expectations for text in each.expressions))
                for spec, frame in checked
                if spec.expectations
            ]
        except SPARK_ERRORS:  # reported elsewhere, as an invalid expectation, or over dropped columns
            return None
        return plan_fingerprint(
            (self.frame, *conditions),
            declared=(
                *(f"{each.name} {each.action.value} {each.condition}" for each in expectations),
                *(f"{each.text} {json.dumps(each.options)}" for each in self.reads if each.options),
            ),
            code_version=code_version,
            settings=self.settings.present,
            session_settings=self.settings.of_results(self.frame.sparkSession),
            file_identity=file_identity,
        )


def _check_names(frame: DataFrame, flow: FlowSpec) -> None:
    """Check that no two columns of a query have the same name, ignoring case: no table can have such columns.

    Raises:
        UserError: DUPLICATE_COLUMNS.
    """
    counts = Counter(name.lower() for name in frame.columns)
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        names = ", ".join(f"`{name}`" for name in twice)
        raise UserError("DUPLICATE_COLUMNS", location=flow.location, flow=flow.name, dataset=flow.target, columns=names)
