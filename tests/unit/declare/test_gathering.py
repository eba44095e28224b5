"""While modules are loaded, a faulty declaration hides neither other faults nor the queries below it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from framework import pipelines as dp
from framework.declare.registry import Registry, registering


@pytest.fixture
def gathering() -> Iterator[Registry]:
    """A registry as the loader fills it."""
    with registering(Registry(catalog="main", schema="shop", gathers_faults=True)) as filled:
        yield filled


def query() -> Any:
    """A query function; never called here."""


def conditions(registry: Registry) -> list[tuple[str, object]]:
    """Condition and argument of each fault."""
    return [(fault.condition, fault.fields.get("argument")) for fault in registry.faults]


def names(registry: Registry) -> tuple[list[str], list[str]]:
    """The tables of all datasets, and of those that are spoilt."""
    return [spec.name.table for spec in registry.datasets], sorted(name.table for name in registry.spoilt)


def test_every_fault_of_one_call_is_found(gathering: Registry) -> None:
    """An invalid argument is omitted and the rest is read; the dataset is registered, so its query is analysed."""
    dp.table(name="orders", comment=5, partition_cols="day", colour="red", schema=7)(query)  # type: ignore[call-overload]
    assert conditions(gathering) == [
        ("INVALID_ARGUMENT.UNKNOWN", "colour"),
        ("INVALID_ARGUMENT.TYPE", "partition_cols"),
        ("INVALID_ARGUMENT.TYPE", "comment"),
        ("INVALID_ARGUMENT.TYPE", "schema"),
    ]
    assert names(gathering) == (["orders"], ["orders"])
    assert len(gathering.queries) == 1


def test_every_faulty_expectation_is_found_and_the_dataset_stands(gathering: Registry) -> None:
    """Three invalid expectations are three faults, and the table itself has none."""

    @dp.table
    @dp.expect("a", 1)  # type: ignore[arg-type]
    @dp.expect_all({"b": 2, "c": "id > 0", "d": 3})  # type: ignore[dict-item]
    def orders() -> Any:
        """Declared."""

    faults = [fault for each in gathering.faults for fault in getattr(each, "errors", [each])]
    assert [fault.fields["argument"] for fault in faults] == ["condition of a", "condition of b", "condition of d"]
    assert names(gathering) == (["orders"], [])
    assert gathering.waiting_expectations == []


def test_a_declaration_that_cannot_be_made_spoils_its_names_only(gathering: Registry) -> None:
    """Its target and its readers do not report it as missing."""
    dp.create_auto_cdc_flow(target="customers", source="feed", keys=[], sequence_by="", stored_as_scd_type=9)

    @dp.append_flow(target="a b..c")
    def broken() -> Any:
        """Its target is no name."""

    @dp.table  # type: ignore[arg-type]
    def needs_arguments(day: str) -> Any:
        """No query function."""
        return day

    assert [fault.condition for fault in gathering.faults] == [
        "INVALID_ARGUMENT.VALUE",
        "AUTOCDC_EMPTY_KEYS",
        "AUTOCDC_MISSING_SEQUENCE_BY",
        "INVALID_NAME",
        "QUERY_FUNCTION_HAS_PARAMETERS",
    ]
    assert names(gathering) == ([], ["customers", "needs_arguments"])


def test_a_sound_declaration_is_as_ever(gathering: Registry) -> None:
    """Decorators with and without arguments register the same specs."""
    dp.create_streaming_table("orders")

    @dp.append_flow(target="orders")
    def load() -> Any:
        """A flow."""

    @dp.temporary_view
    def recent() -> Any:
        """A view."""

    assert (gathering.faults, names(gathering)) == ([], (["orders", "recent"], []))
    assert [flow.name.table for flow in gathering.flows] == ["load", "recent"]
