"""Rows that a test gives are those that it has at that moment."""

from __future__ import annotations

from pathlib import Path

from framework import Pipeline


def test_given_rows_stay_as_they_are(tmp_path: Path) -> None:
    """Rows are written at the first read, and again for another format: no generator is empty then, no list longer."""
    sandbox = Pipeline(name="rows", modules=[lambda: None]).sandbox(tmp_path)
    row = {"id": 1}
    rows = [row]
    sandbox.given("data/list", rows)
    sandbox.given("data/generator", ({"id": number} for number in (1, 2)))
    rows.append({"id": 2})
    row["id"] = 3

    (batch,), (generated,) = (source.batches for source in sandbox.inputs.sources)
    assert [(1,)] == [*batch.rows().values]
    assert [(1,), (2,)] == [*generated.rows().values] == [*generated.rows().values]
