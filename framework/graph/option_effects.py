"""Warnings about options of sources that change no row."""

from __future__ import annotations

from collections.abc import Iterator

from framework.foundation.errors import UserError
from framework.graph.graph import DataflowGraph
from framework.sources.cloud_files.source import options_without_effect


def option_warnings(graph: DataflowGraph) -> Iterator[UserError]:
    """Yield a warning for each option of `cloudFiles` that has no effect.

    Args:
        graph: a valid graph.
    """
    for flow in graph.flows:
        for source in flow.sources:
            for name, why in options_without_effect(source):
                yield UserError("CLOUD_FILES_OPTION_WITHOUT_EFFECT", location=flow.spec.location, option=name, why=why)
