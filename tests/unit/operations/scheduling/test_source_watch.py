"""Sources are watched without Spark: their tokens change with new content, and unknown kinds are named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from framework.foundation.files.local_storage import LocalStorage
from framework.graph.graph import DataflowGraph
from framework.graph.stored_graph import GraphStore
from framework.operations.scheduling.source_watch import watch_sources
from framework.sources.port import SourceReference, SourceShape
from tests.support.fake_pipeline import graph


def _with_sources(found: DataflowGraph, *sources: SourceReference) -> DataflowGraph:
    return replace(found, flows=(replace(found.flows[0], sources=sources), *found.flows[1:]))


def test_new_files_and_commits_change_the_tokens(tmp_path: Path) -> None:
    """A folder of files and a Delta table; an unchanged source keeps its token."""
    storage = LocalStorage(str(tmp_path / "storage"))
    landing, log = tmp_path / "landing", tmp_path / "raw" / "_delta_log"
    landing.mkdir()
    log.mkdir(parents=True)
    sources = (
        SourceReference(kind="files", shape=SourceShape.FOLDER, location=str(landing)),
        SourceReference(kind="delta", shape=SourceShape.TABLE, location=str(log.parent)),
    )
    GraphStore(storage, "shop").write(_with_sources(graph(), *sources), {})
    first = watch_sources(storage, "shop", {}).tokens
    assert first is not None
    assert first == watch_sources(storage, "shop", first).tokens
    (landing / "1.json").write_text("{}")
    second = watch_sources(storage, "shop", first).tokens
    (log / "00000000000000000000.json").write_text("{}")
    third = watch_sources(storage, "shop", second or {}).tokens
    assert 3 == len({str(each) for each in (first, second, third)})


def test_what_can_not_be_watched_is_named(tmp_path: Path) -> None:
    """Kafka has no token, and without a stored graph nothing is known."""
    storage = LocalStorage(str(tmp_path / "storage"))
    assert watch_sources(storage, "shop", {}).tokens is None
    kafka = SourceReference(kind="kafka", shape=SourceShape.STREAM, location="orders")
    GraphStore(storage, "shop").write(_with_sources(graph(), kafka), {})
    found = watch_sources(storage, "shop", {})
    assert (None, ("orders (kafka)",)) == (found.tokens, found.unseen)
