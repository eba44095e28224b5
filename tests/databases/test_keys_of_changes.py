"""Changes that do not say which row they are of: their table is held by name until it is read again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework.declare.specs import TableConfiguration
from framework.ingest.drift import drift_error
from framework.ingest.operations import GatewayTables, Operations
from framework.ingest.tables import expansion
from framework.ingest.tables.copies import definition_of
from framework.ingest.tables.relations import log_relations
from framework.run.update.results import UpdateState
from framework.sources.databases.connections import Connection
from framework.sources.databases.postgres.log import changes_source
from framework.sources.databases.postgres.log.changes import RowKey
from framework.sources.databases.postgres.session import Session
from framework.sources.databases.postgres.tables.catalog import partitions_without_key, read_table
from framework.sources.databases.postgres.values.types import column_types
from framework.sources.databases.tables import TableName
from tests.support.copied_tables import (
    after_definitions,
    all_at_source,
    all_copied,
    applied,
    failures,
    of_both_flows,
    pipeline_of,
    resync,
)
from tests.support.postgres_log import name, position, reader, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from framework.declare.copy_definition import CopyDefinition

Run = Callable[..., list[tuple[Any, ...]]]
_LARGE = "x" * 5000
_TABLE = "CREATE TABLE {t} (id INT PRIMARY KEY, code INT NOT NULL UNIQUE, n INT, big TEXT)"
_PARTITIONED = (
    "CREATE TABLE {t} (id INT PRIMARY KEY, code INT NOT NULL, n INT, big TEXT) PARTITION BY RANGE (id)",
    "CREATE TABLE {t}_1 PARTITION OF {t} FOR VALUES FROM (0) TO (100)",
    "CREATE TABLE {t}_2 PARTITION OF {t} FOR VALUES FROM (100) TO (200)",
    "CREATE UNIQUE INDEX {t}_1_code ON {t}_1 (code)",
)
_ROWS = f"INSERT INTO {{t}} VALUES (1, 1, 0, '{_LARGE}'), (2, 2, 0, 'b'), (3, 3, 0, 'c'), (101, 4, 0, 'd')"
_BY_CODE, _BY_KEY = "REPLICA IDENTITY USING INDEX {t}_code", "REPLICA IDENTITY DEFAULT"


def _changes(
    database: str, run: Run, folder: Path, *statements: str, keeps_unreadable: bool = True
) -> list[tuple[str, str]]:
    """Operations and payloads of the changes of these statements, in a table `t` whose key is `id`."""
    start = position(database, "t")
    for statement in statements:
        run(statement.format(t="t"))
    with Session(Connection(name="bank", uri=database)) as session:
        lacking = partitions_without_key(session, {name("t"): ("id",)}).get(name("t"))
    is_logged = None if lacking is None else not lacking
    keys = {name("t"): RowKey(columns=("id",), is_required=keeps_unreadable, is_logged=is_logged)}
    with closing(reader(database, start, folder / "spool", keys=keys, keeps_unreadable=keeps_unreadable)) as log:
        rows = rows_of(log.read_transactions(start.lsn))
    return [(row["operation"], row["payload"].replace(_LARGE, "large")) for row in rows]


def _create(run: Run, *statements: str, table: str = "t") -> None:
    for statement in (*statements, _ROWS):
        run(statement.format(t=table))


_WITHOUT_KEY = (
    "UNREADABLE",
    (
        "A change of the table public.t does not say which row it is of: it has no value of the key (id). The replica "
        "identity was another one at that time, or the key had NULL."
    ),
)


def test_a_change_under_another_replica_identity_is_no_change_of_another_row(
    database: str, run: Run, folder: Path
) -> None:
    """An update without an old row may have changed the key, and a deletion has none; an insertion has its key."""
    _create(run, _TABLE, "CREATE UNIQUE INDEX t_code ON t (code)")
    statements = (
        f"ALTER TABLE t {_BY_CODE}", "UPDATE t SET id = 7 WHERE id = 2", "DELETE FROM t WHERE id = 3",
        "INSERT INTO t VALUES (8, 8)", f"ALTER TABLE t {_BY_KEY}", "UPDATE t SET n = 1 WHERE id = 7",
    )  # fmt: skip
    assert _changes(database, run, folder, *statements) == [
        _WITHOUT_KEY,
        _WITHOUT_KEY,
        ("INSERT", '{"id":8,"code":8,"n":null,"big":null}'),
        ("UPDATE", '{"id":7,"code":2,"n":1,"big":"b"}'),
    ]


def test_a_reader_without_an_ingestion_has_the_columns_that_the_log_had(database: str, run: Run, folder: Path) -> None:
    """No table holds its changes, so they end no stream of all tables."""
    _create(run, _TABLE, "CREATE UNIQUE INDEX t_code ON t (code)")
    statements = (f"ALTER TABLE t {_BY_CODE}", "DELETE FROM t WHERE id = 3")
    assert _changes(database, run, folder, *statements, keeps_unreadable=False) == [("DELETE", '{"code":3}')]


def test_a_replica_identity_that_contains_the_key_is_more_than_a_key(database: str, run: Run, folder: Path) -> None:
    """An update of its other columns is one row of changes, and a deletion has the key of the table only."""
    _create(run, _TABLE, "CREATE UNIQUE INDEX t_code ON t (code, id)")
    statements = (
        f"ALTER TABLE t {_BY_CODE}", "UPDATE t SET code = 9 WHERE id = 2", "UPDATE t SET id = 7 WHERE id = 2",
        "DELETE FROM t WHERE id = 3",
    )  # fmt: skip
    assert _changes(database, run, folder, *statements) == [
        ("UPDATE", '{"id":2,"code":9,"n":0,"big":"b"}'),
        ("DELETE", '{"id":2}'),
        ("INSERT", '{"id":7,"code":9,"n":0,"big":"b"}'),
        ("DELETE", '{"id":3}'),
    ]


def test_old_rows_of_a_partition_have_the_columns_of_its_own_replica_identity(
    database: str, run: Run, folder: Path
) -> None:
    """The log describes the partitioned table, also where a partition logs less than the table says."""
    _create(run, *_PARTITIONED)
    statements = (
        f"ALTER TABLE t_1 {_BY_CODE}".replace("{t}", "t_1"), "UPDATE t SET code = 9 WHERE id = 2",
        "DELETE FROM t WHERE id = 3", "DELETE FROM t WHERE id = 101",
    )  # fmt: skip
    assert _changes(database, run, folder, *statements) == [_WITHOUT_KEY, _WITHOUT_KEY, ("DELETE", '{"id":101}')]


@pytest.mark.parametrize("alteration", ["ALTER TABLE t REPLICA IDENTITY FULL", "ALTER TABLE t_1 REPLICA IDENTITY FULL"])
def test_a_large_value_that_the_log_left_out_is_never_null(
    database: str, run: Run, folder: Path, alteration: str
) -> None:
    """Also if only the partitioned table is FULL, and its partitions log their keys: or the other way round."""
    _create(run, *_PARTITIONED, "ALTER TABLE t ALTER big SET STORAGE EXTERNAL")
    run("ALTER TABLE t_1 ALTER big SET STORAGE EXTERNAL")
    run(f"UPDATE t SET big = '{_LARGE}' || '' WHERE id = 1")
    found = _changes(database, run, folder, alteration, "UPDATE t SET id = 7 WHERE id = 1")
    assert [operation for operation, _ in found] == ["DELETE", "INSERT"]
    assert found[1] == ("INSERT", '{"id":7,"code":1,"n":0,"big":"large"}')


def _defined(database: str, text_columns: tuple[str, ...]) -> CopyDefinition:
    with Session(Connection(name="bank", uri=database)) as session:
        source = read_table(session, TableName(schema="public", table="t"))
    types = column_types(source, text_columns)
    return definition_of("shop", source, TableConfiguration(text_columns=text_columns), source.key, types)


@pytest.mark.parametrize(
    ("before", "now", "is_held"),
    [
        ("CIDR", "INET", True),
        ("OID", "REGCLASS", True),
        ("INT", "OID", True),
        ("TIMESTAMP", "TIMESTAMPTZ", True),
        ("VARCHAR(3)", "VARCHAR(9)", False),
        ("TEXT", "VARCHAR", False),
        ("TIMESTAMP(3)", "TIMESTAMP(6)", False),
        ("INTERVAL DAY", "INTERVAL", False),
        ("NUMERIC(50,2)", "NUMERIC(60,2)", False),
        ("VARBIT(9)", "VARBIT", False),
        ("BIT(3)", "VARBIT", False),
    ],
)
def test_a_type_that_prints_a_value_in_another_way_holds_the_table(
    database: str, run: Run, before: str, now: str, *, is_held: bool
) -> None:
    """PostgreSQL rewrites no row then, so that the copy would keep the text of before."""
    run(f"SET timezone TO 'UTC'; CREATE TABLE t (id INT PRIMARY KEY, v {before})")
    defined = _defined(database, ("v",))
    run(f"SET timezone TO 'UTC'; ALTER TABLE t ALTER v TYPE {now}")
    error = drift_error(defined, _defined(database, ("v",)))
    assert ("INGESTION_COLUMNS_CHANGED" if is_held else None) == (error and error.condition)


_PRIMARY = "CREATE TABLE {t} (id VARCHAR(10) PRIMARY KEY, n INT NOT NULL)"


@pytest.mark.parametrize(
    ("statement", "is_held"),
    [
        ("ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE t ADD PRIMARY KEY (id)", True),
        ("ALTER TABLE t DROP CONSTRAINT t_pkey, ADD CONSTRAINT t_pkey PRIMARY KEY USING INDEX second", False),
        ("REINDEX TABLE CONCURRENTLY t", False),
        ("DROP INDEX CONCURRENTLY second", False),
        ("ALTER TABLE t ALTER id TYPE VARCHAR(20)", False),
        ("ALTER TABLE t ALTER id TYPE TEXT", False),
        ("VACUUM FULL t", False),
        ("CLUSTER t USING second", False),
        ("ALTER TABLE t RENAME CONSTRAINT t_pkey TO other", False),
    ],
)
def test_a_key_that_stayed_unique_holds_no_table(database: str, run: Run, statement: str, *, is_held: bool) -> None:
    """With REPLICA IDENTITY FULL, whose old rows would be applied without a key, too."""
    run(_PRIMARY.format(t="t"))
    run("ALTER TABLE t REPLICA IDENTITY FULL")
    run("CREATE UNIQUE INDEX second ON t (id)")
    if is_held:
        run("DROP INDEX second")
    defined = _defined(database, ())
    for each in statement.split("; "):
        run(each)
    error = drift_error(defined, _defined(database, ()))
    assert ("INGESTION_COLUMNS_CHANGED" if is_held else None) == (error and error.condition)


def test_a_key_that_the_log_left_out_ends_no_stream(database: str, run: Run, folder: Path) -> None:
    """A large key is out of line, and the replica identity of its partition is another one."""
    run("CREATE TABLE t (id TEXT PRIMARY KEY, code INT NOT NULL, n INT) PARTITION BY LIST (id)")
    run("ALTER TABLE t ALTER id SET STORAGE EXTERNAL")
    run("CREATE TABLE t_1 PARTITION OF t DEFAULT")
    run("CREATE UNIQUE INDEX t_1_code ON t_1 (code)")
    run("ALTER TABLE t_1 ALTER id SET STORAGE EXTERNAL")
    run("INSERT INTO t SELECT string_agg(md5(i::text), ''), 1, 0 FROM generate_series(1, 80) i")
    run("INSERT INTO t VALUES ('small', 2, 0)")
    statements = ("ALTER TABLE t_1 REPLICA IDENTITY USING INDEX t_1_code", "UPDATE t SET n = 1 WHERE code = 1",
                  "INSERT INTO t VALUES ('b', 3, 0)")  # fmt: skip
    assert _changes(database, run, folder, *statements) == [
        _WITHOUT_KEY, ("INSERT", '{"id":"b","code":3,"n":0}')
    ]  # fmt: skip


_PLAIN = ("by_code", "coded", "raced", "named", "staged", "waiting", "skipped")
_TABLES = (*_PLAIN, "parts", "rootless")


def _create_tables(run: Run) -> None:
    for table in _PLAIN:
        _create(run, _TABLE, "CREATE UNIQUE INDEX {t}_code ON {t} (code)", table=table)
    _create(run, *_PARTITIONED, table="parts")
    columns = "id INT NOT NULL UNIQUE, code INT NOT NULL, n INT, big TEXT"
    _create(run, f"CREATE TABLE {{t}} ({columns}) PARTITION BY RANGE (id)", *_PARTITIONED[1:3],
            "ALTER TABLE {t}_1 REPLICA IDENTITY USING INDEX {t}_1_id_key", "ALTER TABLE {t}_2 REPLICA IDENTITY FULL",
            table="rootless")  # fmt: skip
    for table in ("waiting", "skipped"):
        run(f"ALTER TABLE {table} REPLICA IDENTITY FULL")


def _move_rows(run: Run) -> None:
    """Give rows other keys in ways that the log does not show."""
    for table in ("waiting", "skipped"):
        run(f"ALTER TABLE {table} DROP CONSTRAINT {table}_pkey; UPDATE {table} SET id = id + 1")
        run(f"ALTER TABLE {table} ADD PRIMARY KEY (id)")
    run("ALTER TABLE by_code REPLICA IDENTITY USING INDEX by_code_code; UPDATE by_code SET id = id + 10 WHERE id < 3")
    run("ALTER TABLE by_code REPLICA IDENTITY DEFAULT; DELETE FROM by_code WHERE id = 3")
    run("ALTER TABLE staged REPLICA IDENTITY USING INDEX staged_code; DELETE FROM staged WHERE id = 3")
    run("ALTER TABLE staged REPLICA IDENTITY DEFAULT")
    run("ALTER TABLE coded REPLICA IDENTITY USING INDEX coded_code; UPDATE coded SET id = 50 WHERE id = 3")
    run("ALTER TABLE named REPLICA IDENTITY USING INDEX named_code; UPDATE named SET id = 50 WHERE id = 3")
    run("ALTER TABLE named REPLICA IDENTITY DEFAULT; ALTER TABLE named RENAME n TO m")
    run("ALTER TABLE parts_1 REPLICA IDENTITY USING INDEX parts_1_code; UPDATE parts SET id = 50 WHERE id = 3")
    run("UPDATE rootless SET id = 50 WHERE id = 3; DELETE FROM rootless WHERE id = 1")
    run("UPDATE rootless SET n = 7; UPDATE rootless SET id = 150 WHERE id = 101")


@contextmanager
def staging_all(table: str) -> Iterator[None]:
    """Stage all changes of a table: also those without a value of the key."""
    keys_of = changes_source._keys_of

    def keys_of_others(*given: Any) -> dict[TableName, RowKey]:
        return {name: key for name, key in keys_of(*given).items() if name.table != table}

    def relations(*given: Any) -> dict[str, str]:
        options = log_relations(*given)
        return {**options, "keys": ",".join(key for key in options["keys"].split(",") if f'"{table}"' not in key)}

    with pytest.MonkeyPatch.context() as earlier:
        earlier.setattr(expansion, "log_relations", relations)
        earlier.setattr(changes_source, "_keys_of", keys_of_others)
        yield


def test_rows_that_get_other_keys_unseen_are_never_left_in_a_copy(
    interpreting: SparkSession, folder: Path, run: Run
) -> None:
    """Each way is named, stays so when its cause is gone, and ends with exact rows when the table is read again.

    A copy that has no rows yet passes over what was staged before. A change that was staged without a value of the key
    is passed over when its table is read again; AUTO CDC refuses it in each update until then.
    """
    _create_tables(run)
    pipeline = pipeline_of(interpreting, folder)
    tables, operations = GatewayTables(gateways=pipeline.gateways), Operations(storage=pipeline.storage)
    operations.pause(*tables.table("public.waiting"))
    operations.skip_snapshot(*tables.table("public.skipped"))
    assert pipeline.run().state is UpdateState.COMPLETED
    _move_rows(run)
    raced = "ALTER TABLE raced REPLICA IDENTITY USING INDEX raced_code; UPDATE raced SET id = 50 WHERE id = 3"
    pipeline = pipeline_of(interpreting, folder)
    with after_definitions(lambda: run(raced)), staging_all("staged"):
        result = pipeline.run()
    unreadable, without_key = "INGESTION_CHANGE_UNREADABLE", "AUTOCDC_MICROBATCH_VALIDATION.NULL_KEY"
    changed = dict.fromkeys(("coded", "named", "skipped"), "INGESTION_COLUMNS_CHANGED")
    assert failures(result) == {
        **of_both_flows(**changed, parts="DATABASE_KEY_NOT_LOGGED"),
        "by_code_cdc_flow": unreadable, "raced_cdc_flow": unreadable, "staged_cdc_flow": without_key,
    }  # fmt: skip
    for table in ("coded", "parts_1", "raced"):
        run(f"ALTER TABLE {table} REPLICA IDENTITY DEFAULT")
    run("ALTER TABLE named RENAME m TO n; UPDATE by_code SET n = 5 WHERE id = 11")
    run("UPDATE staged SET n = 1 WHERE id = 1")
    operations.resume(*tables.table("public.waiting"))
    pipeline = pipeline_of(interpreting, folder)
    assert failures(pipeline.run()) == {
        **of_both_flows(skipped="INGESTION_COLUMNS_CHANGED"),
        **{f"{table}_cdc_flow": unreadable for table in ("by_code", "coded", "named", "parts", "raced")},
        "staged_cdc_flow": without_key,
    }  # fmt: skip
    assert all_copied(pipeline, "rootless", "waiting") == all_at_source(run, "rootless", "waiting")
    resync(pipeline, "skipped", "by_code", "named", "parts", "staged")
    pipeline = pipeline_of(interpreting, folder)
    with after_definitions(lambda: run("UPDATE parts SET n = 9; UPDATE parts SET id = 51 WHERE id = 50")):
        result = pipeline.run()
    assert failures(result) == dict.fromkeys(("coded_cdc_flow", "raced_cdc_flow"), unreadable)  # like by_code before
    assert "parts" in applied(result)
    exact = [table for table in _TABLES if table not in {"coded", "raced"}]
    assert all_copied(pipeline, *exact) == all_at_source(run, *exact)
    held = all_copied(pipeline, "coded", "raced")
    assert [[row[0] for row in rows] for rows in held.values()] == [[1, 2, 3, 101]] * 2
