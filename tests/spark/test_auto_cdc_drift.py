"""Changed definitions of flows into an existing target: additions are allowed, others need a full refresh."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from pyspark.sql import SparkSession

from framework.declare.specs import AutoCdcSpec
from framework.foundation.errors import UserError
from tests.support.cdc_cases import CHANGES
from tests.support.cdc_world import World

BUILT = "id INT, name STRING, place STRUCT<city: STRING>, op STRING, seq BIGINT"
TYPES = (1, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Changed definitions of flows.

    Args:
        condition: of the error.
        spec: the new spec, from the spec that created the target.
        ddl: of the flow's source.
        told: the error's fields, by the SCD type of the target.
    """

    condition: str
    spec: Callable[[AutoCdcSpec], AutoCdcSpec] = lambda spec: spec
    ddl: str = BUILT
    told: Callable[[int], dict[str, object]]


DRIFTS = (
    Drift(
        condition="AUTOCDC_KEY_DRIFT",
        spec=lambda spec: replace(spec, keys=("name",)),
        told=lambda _: {"stored_keys": "id", "keys": "name"},
    ),
    Drift(
        condition="AUTOCDC_SCD_TYPE_DRIFT",
        spec=lambda spec: replace(spec, scd_type=3 - spec.scd_type),
        told=lambda scd_type: {"stored_scd_type": scd_type, "scd_type": 3 - scd_type},
    ),
    Drift(
        condition="AUTOCDC_SEQUENCE_DRIFT",
        ddl=BUILT.replace("seq BIGINT", "seq STRING"),
        told=lambda _: {"stored_type": "bigint", "type": "string"},
    ),
    Drift(
        condition="AUTOCDC_COLUMN_DRIFT",
        ddl=BUILT.replace("name STRING", "name ARRAY<STRING>"),
        told=lambda _: {"column": "name", "stored_type": "string", "type": "array<string>"},
    ),
)


@pytest.fixture(scope="module", params=TYPES)
def world(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> World:
    """A target of each type with an existing table, which no test changes."""
    spec = replace(CHANGES, keys=("id",), scd_type=request.param)
    return World(spark, tmp_path_factory.mktemp("built"), {"changes": (spec, BUILT, False)})


@pytest.mark.parametrize("drift", DRIFTS, ids=[drift.condition for drift in DRIFTS])
def test_a_flow_that_its_stored_target_can_not_follow_is_refused_with_the_remedy(
    world: World, swap: pytest.MonkeyPatch, drift: Drift
) -> None:
    """One fault names the stored definition, the new one, and the full refresh; the table does not change."""
    scd_type = world.target.scd_type
    stored, before = world.spark.table(world.table.sql).schema, world.version()
    swap.setitem(world.flows, "changes", (drift.spec(world.flows["changes"][0]), drift.ddl, False))
    with pytest.raises(UserError) as raised:
        world.plan(stored)
    told = drift.told(scd_type)
    assert drift.condition == raised.value.condition
    assert told == {name: raised.value.fields[name] for name in told}
    assert "sluice run --full-refresh" in str(raised.value)
    assert before == world.version()


def test_a_table_that_auto_cdc_did_not_build_is_no_target(world: World) -> None:
    """A table that AUTO CDC did not create keeps its rows."""
    with pytest.raises(UserError) as raised:
        world.plan(world.spark.createDataFrame([], BUILT).schema)
    assert "AUTOCDC_TARGET_NOT_OURS" == raised.value.condition


def test_columns_that_are_only_new_are_added_at_every_depth(world: World, swap: pytest.MonkeyPatch) -> None:
    """The stored fields keep their positions."""
    wider = "id INT, email STRING, name STRING, place STRUCT<zip: STRING, city: STRING>, op STRING, seq BIGINT"
    swap.setitem(world.flows, "changes", (world.flows["changes"][0], wider, False))
    shown = world.plan(world.spark.table(world.table.sql).schema).visible_schema
    interval = {1: [], 2: ["__START_AT", "__END_AT"]}[world.target.scd_type]
    assert ["id", "name", "place", *interval, "email"] == shown.fieldNames()
    assert "struct<city:string,zip:string>" == shown["place"].dataType.simpleString()
