"""The rows that a flow's batches have written are counted from the target's log, each commit once."""

from __future__ import annotations

import json
from pathlib import Path

from framework.foundation.files.storage import LocalStorage
from framework.run.flows.metrics import CommittedRows


def commit(table: Path, version: int, rows: int, query: str = "ours") -> None:
    """A commit of a streaming query."""
    log = table / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    info = {"operationParameters": {"queryId": query}, "operationMetrics": {"numOutputRows": str(rows)}}
    lines = [{"commitInfo": info}, {"add": {"path": "a.parquet"}}]
    (log / f"{version:020d}.json").write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


def test_each_commit_counts_once_and_for_its_query_only(tmp_path: Path) -> None:
    """Commits before the start and of other queries don't count; later calls count later commits."""
    for version, (rows, query) in enumerate([(100, "ours"), (1, "ours"), (20, "theirs"), (3, "ours")]):
        commit(tmp_path, version, rows, query)
    commits = CommittedRows(LocalStorage(str(tmp_path)), str(tmp_path), after=0)
    counts = [commits.take("ours"), commits.take("ours")]
    commit(tmp_path, 4, 5)
    assert [*counts, commits.take("ours"), commits.take("ours")] == [4, 0, 5, 0]


def test_a_new_table_counts_from_its_first_commit_and_without_a_query_all_commits(tmp_path: Path) -> None:
    """A table without versions has no rows yet."""
    commits = CommittedRows(LocalStorage(str(tmp_path)), str(tmp_path), after=None)
    before = commits.take()
    commit(tmp_path, 0, 2)
    commit(tmp_path, 1, 3, "theirs")
    assert (before, commits.take()) == (0, 5)
