"""Conformance suite for every dialect of a source database: what the engine relies on, without Spark where it can.

A dialect of another package passes it, too: subclass `DialectConformance` and give it an `engine`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from framework.foundation.conditions import is_known
from framework.foundation.errors import SluiceError, SourceError
from framework.recovery.doctor.diagnoses import DIAGNOSES, UNKNOWN, diagnosis_of
from framework.sources.databases.chunks import SnapshotOffset
from framework.sources.databases.dialects import dialect_of, open_source
from framework.sources.databases.formats import snapshot_request
from framework.sources.databases.options import Options
from framework.sources.databases.position import position_of
from framework.sources.databases.source_session import KnownTable
from framework.sources.databases.streams.snapshot_stream import SnapshotStreamReader
from framework.sources.databases.tables import REPLACED
from framework.testing.dialect_copies import DELETED, Copy, EngineUnderTest, applied, read_all, read_between

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from framework.sources.databases.source_session import SourceSession

_LATER = 1_000_000


class DialectConformance:
    """Test suite to subclass, with a fixture `engine`: an empty database."""

    @pytest.fixture
    def copy(self, engine: EngineUnderTest) -> Copy:
        """A table without a position in the log."""
        engine.execute(f"CREATE TABLE items (id {engine.number} NOT NULL PRIMARY KEY, n {engine.number})")
        numbers = ", ".join(f"({each}, {each})" for each in range(1, engine.rows + 1))
        engine.execute(f"INSERT INTO items VALUES {numbers}")
        return Copy(engine)

    def test_a_scheme_leads_to_the_dialect(self, copy: Copy) -> None:
        """The registry finds it, and its session lists the tables with their keys."""
        connection = Options("conformance", copy.engine.options).connection()
        assert dialect_of(connection).name
        with open_source(connection) as source:
            assert copy.table_name in source.list_tables([copy.engine.schema])
            table = source.read_table(copy.table_name)
            sizes = source.read_sizes([copy.table_name])
        assert (table.name, table.key, [each.name for each in table.columns]) == (copy.table_name, ("id",), ["id", "n"])
        assert set(sizes) == {copy.table_name}

    def test_what_it_supplies_as_data_names_what_exists(self, copy: Copy) -> None:
        """Each condition has its texts, and each diagnosis that it adds to is one of every source."""
        facts = dialect_of(Options("conformance", copy.engine.options).connection()).facts
        named = {each for diagnosis in facts.diagnoses for each in diagnosis.conditions}
        named |= {each for listed in facts.explained.values() for each in listed}
        named |= {*facts.gap_ends, *facts.table_gaps, *facts.retryable, *filter(None, [facts.log_in_use])}
        assert [each for each in sorted(named) if not is_known(each)] == []
        assert {*facts.explained} <= {each.name for each in DIAGNOSES}
        assert [each for each in sorted(named) if diagnosis_of(each) is UNKNOWN] == []
        assert all(diagnosis.remedies for diagnosis in facts.diagnoses)

    def test_a_walk_reads_each_row_once(self, copy: Copy) -> None:
        """In several chunks, whatever happens to rows meanwhile; what is beyond the last bound is in the last chunk."""
        found: list[tuple[int, Any]] = []
        batches = 0
        for start, end in copy.offsets():
            found += copy.rows(start, end)
            copy.engine.execute(
                f"INSERT INTO items VALUES ({_LATER + batches}, 0)",
                f"DELETE FROM items WHERE id = {copy.engine.rows - 1}",
            )
            batches += 1
        keys = [key for key, _ in found]
        assert batches > 1
        assert len(keys) == len({*keys})
        last = copy.engine.rows
        assert {*range(1, last - 1), last} <= {*keys} <= {*range(1, last + 1), *range(_LATER, _LATER + batches)}

    def test_a_killed_snapshot_goes_on_at_its_batch(self, copy: Copy) -> None:
        """Each offset is planned and read by a process of its own, and a batch that is read again is the same."""
        offsets = list(copy.offsets())
        first = [copy.rows(start, end) for start, end in offsets]
        again = [copy.rows(start, end) for start, end in offsets]
        assert [sorted(rows) for rows in first] == [sorted(rows) for rows in again]
        assert sorted(row for rows in first for row in rows) == [
            (each, each) for each in range(1, copy.engine.rows + 1)
        ]

    def test_a_change_after_the_first_plan_is_in_the_log(self, copy: Copy) -> None:
        """The position is made before the first chunk, so what a chunk misses comes as a change."""
        planned = copy.offsets()
        batches = [next(planned)]
        rows = dict(copy.rows(*batches[0]))
        copy.engine.execute("UPDATE items SET n = -1 WHERE id <= 3", "DELETE FROM items WHERE id = 4")
        for start, end in planned:
            rows |= dict(copy.rows(start, end))
        reader = copy.changes(SnapshotOffset.from_json(json.dumps(batches[0][1])).basis.position)
        _, changes = read_all(reader, reader.initialOffset())
        reader.stop()
        expected = {1: -1, 2: -1, 3: -1, **{each: each for each in range(5, copy.engine.rows + 1)}}
        assert applied(rows, changes) == expected

    def test_changes_are_in_the_order_of_their_commits(self, copy: Copy) -> None:
        """Each has a greater (position, ordinal); an update of a key is a deletion and an insertion."""
        reader = copy.changes()
        start = reader.initialOffset()
        copy.engine.execute(
            "INSERT INTO items VALUES (9998, 1)",
            "UPDATE items SET n = 2 WHERE id = 9998",
            "UPDATE items SET id = 9999 WHERE id = 9998",
            "DELETE FROM items WHERE id = 1",
        )
        end, changes = read_all(reader, start)
        reader.stop()
        order = [(change["position"], change["ordinal"]) for change in changes]
        assert order == sorted({*order})
        found = [(change["operation"], json.loads(change["payload"])["id"]) for change in changes]
        assert found == [("INSERT", 9998), ("UPDATE", 9998), (DELETED, 9998), ("INSERT", 9999), (DELETED, 1)]
        assert {change["source_table"] for change in changes} == {str(copy.table_name)}
        positions = [position_of(json.dumps(each)) for each in (start, end)]
        assert positions[0].order < order[0][0] <= positions[1].order
        assert all(each.text for each in positions)

    def test_a_truncate_is_one_change(self, copy: Copy) -> None:
        """It has no row; a database whose log has none of it has a change for each row, or refuses it."""
        connection = Options("conformance", copy.engine.options).connection()
        if not dialect_of(connection).abilities.logs_truncates:
            pytest.skip("abilities.logs_truncates is false")
        reader = copy.changes()
        start = reader.initialOffset()
        copy.engine.execute("TRUNCATE items")
        _, changes = read_all(reader, start)
        reader.stop()
        assert [(each["operation"], each["payload"]) for each in changes] == [("TRUNCATE", None)]

    def test_a_killed_reader_is_given_the_same_changes_again(self, copy: Copy) -> None:
        """Whether it died before the batch was committed, or before a commit was acknowledged."""
        first = copy.changes()
        start = first.initialOffset()
        copy.engine.execute("UPDATE items SET n = 0 WHERE id = 1", "DELETE FROM items WHERE id = 2")
        end, changes = read_all(first, start)
        first.stop()  # nothing was committed
        copy.engine.execute("UPDATE items SET n = 7 WHERE id = 3")
        second = copy.changes()
        assert read_between(second, start, end) == changes
        second.commit(end)
        later, more = read_all(second, end)
        second.stop()
        third = copy.changes()
        assert read_between(third, end, later) == more
        third.stop()
        assert [json.loads(each["payload"])["id"] for each in (*changes, *more)] == [1, 2, 3]

    def test_a_first_batch_that_was_killed_loses_no_change(self, copy: Copy) -> None:
        """Spark has stored where it ends, and not where it began: a new reader is asked for the begin again."""
        first = copy.changes()
        planned = first.latestOffset(first.initialOffset(), ReadAllAvailable())
        first.stop()
        copy.engine.execute("UPDATE items SET n = 0 WHERE id = 1")
        second = copy.changes()
        changes = read_between(second, second.initialOffset(), planned)
        copy.engine.execute("DELETE FROM items WHERE id = 2")
        changes += read_all(second, planned)[1]
        second.stop()
        found = [(each["operation"], json.loads(each["payload"])["id"]) for each in changes]
        assert found == [("UPDATE", 1), (DELETED, 2)]

    def test_a_log_that_was_lost_is_a_gap(self, copy: Copy) -> None:
        """It is named, by the reader and by a look at the status, and nothing is skipped in silence."""
        reader = copy.changes()
        start = reader.initialOffset()
        reader.stop()
        copy.engine.execute("UPDATE items SET n = 0 WHERE id = 1", "UPDATE items SET n = 0 WHERE id = 2")
        assert self._gap(copy, start) is None
        copy.engine.lose_log(copy.log)
        assert self._refused(copy, start) == self._gap(copy, start)

    def test_another_database_at_the_address_is_a_gap(self, copy: Copy) -> None:
        """Its log does not continue the position, however long it is."""
        reader = copy.changes()
        start = reader.initialOffset()
        reader.stop()
        copy.engine.replace()
        assert self._refused(copy, start) == self._gap(copy, start)

    def test_a_position_is_made_once_and_dropped_once(self, copy: Copy) -> None:
        """Both may be repeated, as after a kill; what a settled position has is visible."""
        connection = Options("conformance", copy.engine.options).connection()
        with open_source(connection, read_only=False) as source:
            first = source.ensure_position(copy.log, [copy.table_name])
            table = source.read_table(copy.table_name)
            found = source.logged_tables(copy.log).continuity(table)
            copy.engine.execute("UPDATE items SET n = 0 WHERE id = 1")
            again = source.ensure_position(copy.log, [copy.table_name])
            settled = source.settled_position(copy.log)
            assert 0 < first.order <= again.order <= settled.order
            assert source.logged_tables(copy.log).has_log
            assert source.logged_tables(copy.log).has_table(copy.table_name)
            assert source.logged_tables(copy.log).continuity(table) == found
            for _ in range(2):
                source.drop_position(copy.log)
            logs_every_table = dialect_of(connection).abilities.logs_every_table
            assert source.logged_tables(copy.log).has_log is logs_every_table
            source.ensure_position(copy.log, [copy.table_name])
            assert (source.logged_tables(copy.log).continuity(table) == found) is logs_every_table

    def test_a_table_that_loses_its_name_is_marked_in_the_log(self, copy: Copy) -> None:
        """Where the log has every table, it says when another one may have the name; rows before it are of the copy."""
        connection = Options("conformance", copy.engine.options).connection()
        if not dialect_of(connection).abilities.logs_every_table:
            pytest.skip("abilities.logs_every_table is false")
        reader = copy.changes()
        start = reader.initialOffset()
        number = copy.engine.number
        copy.engine.execute(
            "UPDATE items SET n = 7 WHERE id = 1",
            f"CREATE TABLE other (id {number} NOT NULL PRIMARY KEY, n {number})",
            "DROP TABLE items",
            "ALTER TABLE other RENAME TO items",
            "INSERT INTO items VALUES (1, 1)",
        )
        _, changes = read_all(reader, start)
        reader.stop()
        assert [each["operation"] for each in changes] == ["UPDATE", REPLACED, "INSERT"]

    def test_a_table_that_is_not_the_one_of_before_is_refused(self, copy: Copy) -> None:
        """It has the name, but another identity; or it was out of the log in between."""
        connection = Options("conformance", copy.engine.options).connection()
        with open_source(connection, read_only=False) as source:
            source.ensure_position(copy.log, [copy.table_name])
            table, logged = source.read_table(copy.table_name), source.logged_tables(copy.log)
            before = logged.continuity(table)
            known = KnownTable(is_begun=True, continuity=before)
            logged.among([table]).refuse(table, known)
            assert logged.fault(table, before) is None
            if dialect_of(connection).abilities.logs_every_table:
                pytest.skip("the log has every table, and says when one is replaced")
            source.drop_position(copy.log)
            source.ensure_position(copy.log, [copy.table_name])
            for lost in (known, KnownTable(is_begun=True, planned=before)):
                self._assert_refused(source, copy, lost, "INGESTION_TABLE_UNPUBLISHED")
            number = copy.engine.number
            copy.engine.execute(
                "CREATE TABLE other (id " + number + " NOT NULL PRIMARY KEY, n " + number + ")",
                "DROP TABLE items",
                "ALTER TABLE other RENAME TO items",
            )
            self._assert_refused(source, copy, known, "INGESTION_TABLE_REPLACED")

    @staticmethod
    def _assert_refused(source: SourceSession, copy: Copy, known: KnownTable, condition: str) -> None:
        table, logged = source.read_table(copy.table_name), source.logged_tables(copy.log)
        with pytest.raises(SluiceError, match=condition):
            logged.among([table]).refuse(table, known)
        fault = logged.fault(table, known.continuity or known.planned)
        assert fault is not None
        assert fault.condition == condition

    def test_each_value_is_the_same_by_a_chunk_and_by_the_log(
        self, engine: EngineUnderTest, spark: SparkSession
    ) -> None:
        """For each type and its values, and NULL."""
        columns = ", ".join(f"c{place} {case.type}" for place, case in enumerate(engine.types))
        engine.execute(f"CREATE TABLE items (id {engine.number} NOT NULL PRIMARY KEY, {columns})")
        copy = Copy(engine)
        reader = copy.changes()
        start = reader.initialOffset()
        longest = max(len(case.literals) for case in engine.types)
        for number in range(longest + 1):
            values = ", ".join((*case.literals, *["NULL"] * longest)[number] for case in engine.types)
            engine.execute(f"INSERT INTO items VALUES ({number}, {values})")
        _, changes = read_all(reader, start)
        reader.stop()
        request = snapshot_request({**engine.options, "table": str(copy.table_name)})
        schema = request.schema()
        payloads = spark.createDataFrame([(each["payload"],) for each in changes], "payload STRING")
        logged = payloads.selectExpr(f"from_json(payload, '{schema}', map('mode', 'FAILFAST')) AS row").select("row.*")
        snapshot = SnapshotStreamReader(request, tuple(each.name for each in request.describe()[1]))
        begin = snapshot.initialOffset()
        end = snapshot.latestOffset(begin, ReadAllAvailable())
        batches = [batch for part in snapshot.partitions(begin, end) for batch in snapshot.read(part)]
        chunks = spark.createDataFrame([tuple(row.values()) for batch in batches for row in batch.to_pylist()], schema)
        found, expected = (sorted(map(repr, each.collect())) for each in (logged, chunks))
        assert found == expected
        assert chunks.count() == longest + 1

    @staticmethod
    def _gap(copy: Copy, stored: dict[str, Any]) -> str | None:
        connection = Options("conformance", copy.engine.options).connection()
        with open_source(connection) as source:
            gap = source.find_gap(json.dumps(stored), copy.log)
        return None if gap is None else gap.condition

    @staticmethod
    def _refused(copy: Copy, stored: dict[str, Any]) -> str:
        reader = copy.changes()
        try:
            with pytest.raises(SourceError) as caught:
                read_all(reader, stored)
        finally:
            reader.stop()
        assert caught.value.condition.startswith("DATABASE_POSITION_LOST.")
        return caught.value.condition
