"""Warnings about the options of sources: options without an effect, and inferred types that change values."""

from __future__ import annotations

from collections.abc import Iterator

from framework.foundation.errors import UserError
from framework.graph.graph import DataflowGraph
from framework.sources.cloud_files.columns.schemas import SchemaStore
from framework.sources.cloud_files.source import losing_zeros, options_without_effect


def option_warnings(graph: DataflowGraph, schemas: SchemaStore) -> Iterator[UserError]:
    """Yield a warning for each `cloudFiles` option without an effect, and for each source whose types drop zeros.

    Args:
        graph: a valid graph.
        schemas: the inferred columns of the sources.
    """
    for flow in graph.flows:
        for source in flow.sources:
            for name, why in options_without_effect(source):
                yield UserError("CLOUD_FILES_OPTION_WITHOUT_EFFECT", location=flow.spec.location, option=name, why=why)
            if zeros := losing_zeros(source, schemas):
                hints = ", ".join(f"{name} STRING" for name in zeros)
                yield UserError(
                    "CLOUD_FILES_ZEROS_LOST",
                    location=flow.spec.location,
                    path=source.location or "",
                    columns=", ".join(zeros),
                    hints=hints,
                )
