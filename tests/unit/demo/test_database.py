"""The database example of the demo, without its database."""

from __future__ import annotations

from dataclasses import replace

from framework.demo.database import TABLES, SourceComparison, bank_folder, missing_packages


def test_a_copy_is_equal_only_if_rows_and_sum_are() -> None:
    """One row or one unit of money too many is a difference."""
    equal = SourceComparison(table="accounts", source_rows=10, copied_rows=10, source_sum=-5, copied_sum=-5)
    assert [equal.is_equal, replace(equal, copied_rows=11).is_equal, replace(equal, copied_sum=-4).is_equal] == [
        True, False, False,
    ]  # fmt: skip


def test_the_example_compares_every_table_that_its_pipeline_copies() -> None:
    """The tables of the comparison are those of `ingest_database`, and their drivers are installed here."""
    module = (bank_folder() / "transformations" / "copies.py").read_text("utf-8")
    names = ", ".join(f'"{table}"' for table, _ in TABLES)
    assert f"for name in ({names})" in module
    assert missing_packages() == ()
