"""The call `ingest_database`: its words, and what it refuses."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from framework.declare.interface.ingestion import (
    CONFIGURATION,
    LOCAL_CONFIGURATION,
    REFUSED_SCD_TYPES,
    SCD_TYPES,
    ingest_database,
)
from framework.declare.registry import Registry, registering
from framework.declare.specs import AutoFullRefreshPolicy, TableConfiguration
from framework.deploy.ingestion import spec as bundle
from framework.foundation.errors import UserError

TABLE = {"source_schema": "public", "source_table": "orders"}


def declared(*objects: object, name: object = "shop", **more: Any) -> Registry:
    """Return the registry with one ingestion."""
    with registering(Registry(catalog="main", schema="default")) as registry:
        ingest_database(name, "bank", list(objects), **more)  # type: ignore[arg-type]
    return registry


def test_the_call_and_the_ingestion_spec_of_a_bundle_share_their_words() -> None:
    """A table has the same words with the same values in both, so that one can be turned into the other."""
    of_bundle = {field.name for field in fields(bundle.Table)} - {"name", "schema"}
    assert {*CONFIGURATION} == of_bundle
    assert {*SCD_TYPES, *REFUSED_SCD_TYPES} == {*bundle.SCD_TYPES}
    assert {field.name for field in fields(TableConfiguration)} == {*CONFIGURATION, *LOCAL_CONFIGURATION} - {
        "sequence_by"
    }


def test_the_configuration_of_a_table_adds_to_the_common_one() -> None:
    """Its words override those of the call; one list of columns replaces the other."""
    own = {"include_columns": ["a"], "row_filter": "a > 1", "auto_full_refresh_policy": {"enabled": False}}
    registry = declared(
        {"table": {**TABLE, "table_configuration": own}},
        {"schema": {"source_schema": "sales", "include": ["order_*"], "destination_catalog": "c"}},
        table_configuration={
            "scd_type": "SCD_TYPE_2",
            "exclude_columns": ["b"],
            "auto_full_refresh_policy": {"enabled": True, "min_interval_hours": 3},
        },
    )
    (spec,) = registry.ingestions
    first, second = spec.objects
    assert first.configuration == TableConfiguration(scd_type=2, include_columns=("a",), row_filter="a > 1")
    assert second.configuration == TableConfiguration(
        scd_type=2,
        exclude_columns=("b",),
        auto_full_refresh_policy=AutoFullRefreshPolicy(enabled=True, min_interval_hours=3),
    )
    assert (second.source_table, second.include, second.destination_catalog) == (None, ("order_*",), "c")


def test_soft_deletes_are_for_tables_without_a_history() -> None:
    """The common setting is for the tables of SCD type 1; one of its own switches it off or names another column."""
    configurations = [None, {"scd_type": "SCD_TYPE_2"}, {"soft_deletes": False}, {"soft_deletes": "gone"}]
    objects = [{"table": {**TABLE, "table_configuration": each}} for each in configurations]
    (spec,) = declared(*objects, table_configuration={"soft_deletes": True}).ingestions
    assert [each.configuration.soft_deletes for each in spec.objects] == ["__deleted", None, None, "gone"]


@pytest.mark.parametrize(
    ("objects", "more", "condition", "named"),
    [
        ([], {}, "INVALID_ARGUMENT.TYPE", "objects"),
        ([TABLE], {}, "INVALID_ARGUMENT.VALUE", "objects[0]"),
        ([{"table": TABLE}], {"name": "Shop"}, "INVALID_ARGUMENT.VALUE", "name"),
        ([{"table": {"source_schema": "public"}}], {}, "INVALID_ARGUMENT.TYPE", "objects[0].table.source_table"),
        ([{"schema": {"source_schma": "public"}}], {}, "INVALID_ARGUMENT.UNKNOWN", "objects[0].schema.source_schma"),
        (
            [{"schema": {"source_schema": "a", "include": "b*"}}],
            {},
            "INVALID_ARGUMENT.TYPE",
            "objects[0].schema.include",
        ),
        ([{"table": TABLE}], {"table_configuration": {"scd_type": "SCD_TYPE_3"}}, "INVALID_ARGUMENT.VALUE", "scd_type"),
        (
            [{"table": TABLE}],
            {"table_configuration": {"scd_type": "SCD_TYPE_2", "soft_deletes": True}},
            "INGESTION_SOFT_DELETES_OF_HISTORY",
            "soft_deletes",
        ),
        ([{"table": TABLE}], {"table_configuration": {"scd_type": "APPEND_ONLY"}}, "INGESTION_APPEND_ONLY", "scd_type"),
        ([{"table": TABLE}], {"table_configuration": {"sequence_by": ["a"]}}, "INGESTION_SEQUENCE_BY", "table_conf"),
        (
            [{"table": {**TABLE, "table_configuration": {"auto_full_refresh_policy": {"min_interval_hours": 1}}}}],
            {},
            "INVALID_ARGUMENT.TYPE",
            "auto_full_refresh_policy.enabled",
        ),
        (
            [{"table": TABLE}],
            {"table_configuration": {"auto_full_refresh_policy": {"enabled": True, "min_interval_hours": -1}}},
            "INVALID_ARGUMENT.VALUE",
            "min_interval_hours",
        ),
        (
            [{"table": TABLE}],
            {"table_configuration": {"include_columns": ["a"], "exclude_columns": ["b"]}},
            "INVALID_ARGUMENT.BOTH",
            "include_columns",
        ),
    ],
)
def test_a_mistake_in_the_call_is_named(
    objects: list[object], more: dict[str, Any], condition: str, named: str
) -> None:
    """The error has the condition, and the argument with its place in the objects."""
    with pytest.raises(UserError) as caught:
        declared(*objects, **more)
    assert caught.value.condition == condition
    assert named in caught.value.what
