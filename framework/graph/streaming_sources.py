"""The streaming sources that a query reads by itself, not through the name of a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from framework.graph.relations import analysed_plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FILE_FORMATS = frozenset({"json", "csv", "parquet", "text", "orc", "avro", "xml", "binaryfile"})
_GLOB = frozenset("*?[{")


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectSources:
    """Folders of Delta tables, folders of files, and whether there is anything else."""

    delta_paths: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    opaque: bool = False


def direct_sources(frame: DataFrame) -> DirectSources:
    """The sources of a streaming query that are not stand-ins."""
    delta_paths, folders, opaque = [], [], False
    for leaf in _streaming_leaves(analysed_plan(frame)):
        kind, path = _source(leaf)
        if kind == "delta" and path is not None:
            delta_paths.append(path)
        elif kind in _FILE_FORMATS and path is not None and not _GLOB & set(path):
            folders.append(path)
        else:
            opaque = True
    return DirectSources(delta_paths=tuple(delta_paths), folders=tuple(folders), opaque=opaque)


def _streaming_leaves(plan: Any) -> Iterator[Any]:
    leaves = plan.collectLeaves()
    for index in range(leaves.size()):
        leaf = leaves.apply(index)
        if leaf.nodeName().startswith("StreamingRelation"):
            yield leaf


def _source(leaf: Any) -> tuple[str, str | None]:
    """Format and path of a source; the path is None for those that have none."""
    if leaf.nodeName() != "StreamingRelation":
        return str(leaf.sourceName()), None
    source = leaf.dataSource()
    path = source.options().get("path")
    return str(source.className()).lower(), str(path.get()) if path.isDefined() else None
