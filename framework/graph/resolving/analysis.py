"""The analysis of one query while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from framework.declare.specs import FlowSpec
from framework.graph.graph import Read


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Analysis:
    """The analysis of one flow's query, and its reads so far.

    Args:
        is_final: whether the settings in use include the settings of all views that the query reads.
        reads_rows: whether streams of tables are read as batches of their present rows.
    """

    flow: FlowSpec
    is_final: bool = False
    reads_rows: bool = False
    reads: list[Read] = field(default_factory=list)
