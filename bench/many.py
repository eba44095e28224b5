"""Pipelines of many flows, made for the benchmarks of idling and of scale."""

from __future__ import annotations

from pathlib import Path

_SPEC = """name: many
storage: {folder}/storage
catalog: main
schema: many
libraries:
  - file: {{path: many.py}}
"""

_MODULE = '''"""{tables} streaming tables and {views} views, each view over one table."""

from framework import pipelines as dp


def declare(number):
    """One streaming table and, while there are any, its view."""

    @dp.table(name=f"table_{{number}}")
    def rows():
        return spark.readStream.format("json").schema("id BIGINT, amount DOUBLE").load("{folder}/data")

    if number < {views}:

        @dp.materialized_view(name=f"view_{{number}}")
        def totals():
            return spark.read.table(f"table_{{number}}").groupBy("id").count()


for number in range({tables}):
    declare(number)
'''


def write_project(folder: Path, *, tables: int, views: int) -> None:
    """A project of so many streaming tables over one small file, and so many views over the first of them."""
    (folder / "pipeline.yml").write_text(_SPEC.format(folder=folder), encoding="utf-8")
    (folder / "many.py").write_text(_MODULE.format(folder=folder, tables=tables, views=views), encoding="utf-8")
    (folder / "data").mkdir()
    lines = [f'{{"id": {i % 10}, "amount": {i}.5}}\n' for i in range(100)]
    (folder / "data" / "0.json").write_text("".join(lines), encoding="utf-8")
