"""Names of inputs: how the name in a test finds the read in the code."""

from __future__ import annotations

import pytest

from framework.declare.inputs import SourceRead
from framework.declare.registry import Registry
from framework.declare.specs import IngestedObject, IngestionSpec
from framework.foundation.names import QualifiedName
from framework.sandbox.input_files import file_name
from framework.sandbox.input_names import InputKind, InputName, Nearness, name_of_copy, names_of

WHOLE, END, NONE = Nearness.WHOLE, Nearness.END, Nearness.NONE


def read(format: str, path: str | None = None, **options: str) -> SourceRead:
    """A read with options."""
    return SourceRead(format=format, path=path, options=options, schema=None, streaming=True, location=None)


@pytest.mark.parametrize(
    ("kind", "text", "written", "nearness"),
    [
        ("path", "dbfs:/mnt/data/orders", "dbfs:/mnt/data/orders", WHOLE),
        ("path", "dbfs:/mnt/data/orders", "/mnt/data/orders/", WHOLE),
        ("path", "/dbfs/mnt/data/orders", "/mnt/data/orders", WHOLE),
        ("path", "dbfs:/mnt/data/orders", "data/orders", END),
        ("path", "dbfs:/mnt/data/orders", "a/orders", NONE),
        ("path", "data/orders/*.json", "data/orders/*.json", WHOLE),
        ("path", "data/orders/*.json", "data/orders", WHOLE),
        ("path", "/x/data/orders/*/day=*/o.csv", "orders", END),
        ("path", "data/orders/*.json", "data", NONE),
        ("path", "s3a://lake/orders", "s3://lake/orders", WHOLE),
        ("path", "s3://lake/orders", "lake/orders", WHOLE),
        ("path", "s3://lake/orders", "abfss://lake/orders", NONE),
        ("path", "../data//./orders", "data/orders", END),
        ("path", "../data/orders", "../data/orders", WHOLE),
        ("path", "data/orders", "../data/orders", NONE),
        ("path", "/Volumes/a b/raw", "a b/raw", END),
        ("table", "main.sales.orders", "main.sales.orders", WHOLE),
        ("table", "main.sales.orders", "Sales.`Orders`", END),
        ("table", "main.sales.orders", "orders", END),
        ("table", "main.sales.orders", "les.orders", NONE),
        ("table", "main.sales.orders", "data/orders", NONE),
        ("topic", "kafka:orders", "orders", WHOLE),
        ("topic", "kafka:orders", "kafka:orders", WHOLE),
        ("topic", "kafka:shop.orders", "orders", NONE),
        ("topics", "kafka:shop.*", "shop.orders", WHOLE),
        ("topics", "kafka:shop.*", "bank", NONE),
        ("database", "postgres:bank/public.orders", "postgres:bank/public.orders", WHOLE),
        ("database", "postgres:bank/public.orders", "database:bank/public.orders", WHOLE),
        ("database", "postgres:bank/public.orders", "public.orders", END),
        ("database", "postgres:bank/public.orders", "shop/public.orders", NONE),
        ("named", "jdbc:public.orders", "jdbc:public.orders", WHOLE),
        ("named", "jdbc:public.orders", "orders", END),
        ("named", "rate", "rate", WHOLE),
        ("named", "rate", "ate", NONE),
    ],
)
def test_a_name_fits_an_input_whole_or_by_its_end(kind: str, text: str, written: str, nearness: Nearness) -> None:
    """A test writes an input as the code does, or the end of its name; never a part of a word."""
    assert InputName(kind=InputKind(kind), text=text).nearness(written) is nearness


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (read("json", "data/orders"), ["data/orders"]),
        (read("kafka", subscribe="a, b"), ["kafka:a", "kafka:b"]),
        (read("kafka", subscribepattern="a.*"), ["kafka:a.*"]),
        (read("kafka", assign='{"a": [0, 1], "b": [0]}'), ["kafka:a", "kafka:b"]),
        (read("postgres_snapshot", connection="bank", table="public.t"), ["postgres:bank/public.t"]),
        (read("jdbc", url="jdbc:x", dbtable="orders"), ["jdbc:orders"]),
        (read("rate", rowspersecond="1"), ["rate"]),
    ],
)
def test_a_read_is_named_by_what_the_code_writes(source: SourceRead, names: list[str]) -> None:
    """The inputs of a read have names that a test can write."""
    assert [name.text for name in names_of(source)] == names


def test_a_copy_is_found_by_its_table_in_the_database() -> None:
    """The copies of an ingestion are given by the names of the tables of the database."""
    objects = (
        IngestedObject(source_schema="public", source_table="Accounts", destination_table="clients"),
        IngestedObject(source_schema="sales", destination_schema="shop"),
    )
    spec = IngestionSpec(name="bank_gateway", connection="bank", objects=objects)
    registry = Registry(catalog="main", schema="s", ingestions=[spec])
    found = [
        name_of_copy(QualifiedName(catalog="main", schema=schema, table=table), registry)
        for schema, table in (("s", "clients"), ("shop", "orders"), ("other", "orders"))
    ]
    assert [None if each is None else each.text for each in found] == [
        "database:bank/public.Accounts", "database:bank/sales.orders", None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("orders_*.json", ["orders_00000.json", "orders_00001.json"]),
        ("*", ["00000", "00001"]),
        ("{a,b}?[0-9]*.csv", ["a0000000.csv", "a0000001.csv"]),
    ],
)
def test_files_have_names_that_the_pattern_of_the_read_matches(pattern: str, names: list[str]) -> None:
    """A pattern of files finds the files that a sandbox writes for it."""
    assert [file_name(pattern, number) for number in range(2)] == names
