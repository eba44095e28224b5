"""Whether the sources of a pipeline have something new, without Spark: the tokens that change with their content."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from framework.foundation.errors import OperationError
from framework.foundation.files.storage_port import Storage
from framework.graph.stored_graph import GraphStore
from framework.sources.cloud_files.settings.given_options import parse_options
from framework.sources.cloud_files.settings.options import local_path
from framework.sources.delta.source import DeltaSource
from framework.sources.files.source import FileSource
from framework.sources.port import SourceReference, StreamingSource

_KINDS: Mapping[str, StreamingSource] = {kind.kind: kind for kind in (DeltaSource(), FileSource())}
_FOLDERS = "cloud_files"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedSources:
    """The state of a pipeline's sources.

    Args:
        tokens: the token of each source by its name; None if one of them has none, or nothing is known of them.
        unseen: the sources whose changes can't be seen without Spark.
    """

    tokens: Mapping[str, str] | None = None
    unseen: tuple[str, ...] = ()


def watch_sources(storage: Storage, pipeline: str, known: Mapping[str, str]) -> WatchedSources:
    """Return the state of the streaming sources that the stored graph of a pipeline reads from outside of it.

    Args:
        storage: the pipeline's storage.
        pipeline: its name.
        known: the tokens of the last look, which save listings.
    """
    try:
        stored = GraphStore(storage, pipeline).read()
    except OperationError:
        stored = None
    if stored is None:
        return WatchedSources(unseen=("the graph, which the first update stores",))
    own = set(stored.folders.values())
    sources = {
        str(source): source for flow in stored.graph.flows for source in flow.sources if source.location not in own
    }
    tokens = {name: _token(storage, source, known.get(name)) for name, source in sources.items()}
    unseen = tuple(sorted(name for name, token in tokens.items() if token is None))
    if unseen or not tokens:
        return WatchedSources(unseen=unseen)
    return WatchedSources(tokens={name: token for name, token in tokens.items() if token is not None})


def _token(storage: Storage, source: SourceReference, known: str | None) -> str | None:
    if source.kind == _FOLDERS and source.details:
        return _folder_token(storage, source, known)
    kind = _KINDS.get(source.kind)
    return None if kind is None else kind.change_token(storage, source, known)


def _folder_token(storage: Storage, source: SourceReference, known: str | None) -> str | None:
    """Return the token of a folder that `cloudFiles` reads, under the conditions of its own kind."""
    mark: dict[str, Any] = json.loads(source.details)
    options = parse_options(mark["path"], mark["options"], has_schema=mark["has_schema"], zone=mark.get("zone", "UTC"))
    folder = local_path(options.path)
    if options.allow_overwrites or folder is None or set("*?[{") & set(options.path):
        return None
    return FileSource().change_token(storage, replace(source, location=folder), known)
