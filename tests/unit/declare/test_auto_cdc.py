"""AUTO CDC declarations: the registered specs, and the rejected arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from framework import pipelines as dp
from framework.declare.registry import Registry
from framework.declare.specs import AutoCdcSpec, ColumnSelection, FlowSpec
from framework.foundation.errors import UserError
from framework.foundation.names import QualifiedName

face: Any = dp  # modules are not type-checked: they pass what they like


def name(table: str) -> QualifiedName:
    """A name of `main.shop`."""
    return QualifiedName(catalog="main", schema="shop", table=table)


def rows() -> Any:
    """A query function."""
    return None


def test_the_least_call_names_the_flow_after_its_target(registry: Registry) -> None:
    """All other arguments have Lakeflow's defaults."""
    dp.create_auto_cdc_flow("users", "changes", ["id"], "seq")
    expected = FlowSpec(
        name=name("users"),
        target=name("users"),
        location=registry.flows[0].location,
        source="changes",
        cdc=AutoCdcSpec(keys=("id",), sequence_by="seq"),
    )
    assert [expected] == registry.flows


def test_soft_deletes_name_their_column(registry: Registry) -> None:
    """True stands for `__deleted`; it is off by default, and a name may have backticks."""
    for value in (True, "`is gone`", False, None):
        dp.create_auto_cdc_flow("users", "changes", ["id"], "seq", soft_deletes=value)  # type: ignore[arg-type]
    dp.create_auto_cdc_from_snapshot_flow("users", "changes", ["id"], soft_deletes="gone")

    @dp.auto_cdc_flow("users", ["id"], "seq", soft_deletes=True)
    def follow() -> Any:
        return None

    flags = [flow.cdc and flow.cdc.soft_deletes for flow in registry.flows]
    assert flags == ["__deleted", "is gone", None, None, "gone", "__deleted"]


def test_every_argument_is_kept(registry: Registry) -> None:
    """`apply_changes` is the same call, `flow_name` the same argument."""
    dp.apply_changes(
        target="users",
        source="LIVE.changes",
        keys=["id", "`tenant id`"],
        sequence_by="struct(ts, seq)",
        where="op <> 'NOOP'",
        ignore_null_updates=True,
        apply_as_deletes="op = 'DELETE'",
        except_column_list=["op"],
        columns_to_update="changed",
        stored_as_scd_type="2",
        track_history_except_column_list=["city"],
        flow_name="follow",
        once=True,
    )
    cdc = AutoCdcSpec(
        keys=("id", "tenant id"),
        sequence_by="struct(ts, seq)",
        where="op <> 'NOOP'",
        ignore_null_updates=ColumnSelection(),
        apply_as_deletes="op = 'DELETE'",
        columns=ColumnSelection(columns=("op",), excluded=True),
        columns_to_update="changed",
        scd_type=2,
        track_history=ColumnSelection(columns=("city",), excluded=True),
    )
    expected = FlowSpec(
        name=name("follow"),
        target=name("users"),
        location=registry.flows[0].location,
        once=True,
        source="LIVE.changes",
        cdc=cdc,
    )
    assert [expected] == registry.flows


@pytest.mark.parametrize(
    ("arguments", "field", "expected"),
    [
        ({"column_list": ["id", "a"]}, "columns", ColumnSelection(columns=("id", "a"))),
        ({"column_list": []}, "columns", ColumnSelection(columns=())),
        ({"ignore_null_updates": False}, "ignore_null_updates", None),
        ({"ignore_null_updates_column_list": ["a"]}, "ignore_null_updates", ColumnSelection(columns=("a",))),
        (
            {"ignore_null_updates": True, "ignore_null_updates_except_column_list": ["a"]},
            "ignore_null_updates",
            ColumnSelection(columns=("a",), excluded=True),
        ),
        (
            {"stored_as_scd_type": 2, "track_history_column_list": ["a"]},
            "track_history",
            ColumnSelection(columns=("a",)),
        ),
        ({"stored_as_scd_type": 1}, "scd_type", 1),
        ({"apply_as_truncates": "op = 'TRUNCATE'"}, "apply_as_truncates", "op = 'TRUNCATE'"),
    ],
)
def test_each_list_selects_what_it_says(
    registry: Registry, arguments: dict[str, Any], field: str, expected: object
) -> None:
    """Included, excluded or all."""
    dp.create_auto_cdc_flow("t", "s", ["id"], "seq", **arguments)
    assert getattr(registry.flows[0].cdc, field) == expected


def test_decorated_flows_take_their_query_as_source(registry: Registry) -> None:
    """By default, a snapshot runs once and is older than all events; the change flow follows it."""

    @dp.snapshot_flow("users", keys=["id"])
    def load() -> Any:
        return "snapshot"

    @dp.auto_cdc_flow(target="users", keys=["id"], sequence_by="seq", name="follow", apply_as_deletes="gone")
    def changes() -> Any:
        return "changes"

    places = [flow.location for flow in registry.flows]
    assert [
        FlowSpec(
            name=name("load"),
            target=name("users"),
            location=places[0],
            once=True,
            cdc=AutoCdcSpec(keys=("id",), sequence_by="0"),
        ),
        FlowSpec(
            name=name("follow"),
            target=name("users"),
            location=places[1],
            cdc=AutoCdcSpec(keys=("id",), sequence_by="seq", apply_as_deletes="gone"),
        ),
    ] == registry.flows
    queries: dict[Any, Any] = dict(registry.queries)
    assert [query() for query in queries.values()] == ["snapshot", "changes"]
    kept: Any = load
    assert kept() == "snapshot"


def test_snapshots_come_from_a_name_or_a_function(registry: Registry) -> None:
    """The function is stored by the flow's name; the version is the sequence, so the spec has none."""

    def next_snapshot(latest: object) -> object:
        return latest

    dp.create_auto_cdc_from_snapshot_flow("a", "daily", ["id"])
    dp.apply_changes_from_snapshot(
        target="b",
        source=next_snapshot,
        keys=["id"],
        stored_as_scd_type=2,
        track_history_column_list=["city"],
        name="f",
        once=True,
    )
    first, second = registry.flows
    assert (first.name, first.source, first.from_snapshots, first.once) == (name("a"), "daily", True, False)
    assert first.cdc == AutoCdcSpec(keys=("id",), sequence_by="")
    assert (second.name, second.source, second.from_snapshots, second.once) == (name("f"), None, True, True)
    assert second.cdc == AutoCdcSpec(
        keys=("id",), sequence_by="", scd_type=2, track_history=ColumnSelection(columns=("city",))
    )
    assert registry.snapshot_functions == {name("f"): next_snapshot}


def test_a_snapshot_with_its_version_is_applied_once(registry: Registry) -> None:
    """The former `snapshot_and_version` takes the pair itself; a later update brings a later version."""
    frame: Any = "rows"
    dp.apply_changes_from_snapshot(target="t", snapshot_and_version=(frame, 5), keys=["id"])  # type: ignore[call-arg]
    given = registry.snapshot_functions[name("t")]
    assert [given(latest) for latest in (None, 4, 5, 6)] == [("rows", 5), ("rows", 5), None, None]


def rows_between(first: object, last: object) -> Any:
    """A function of two arguments, which no snapshot source is."""
    return first, last


def flow(**arguments: Any) -> Callable[[], object]:
    """A call of `create_auto_cdc_flow` that is right but for the arguments."""
    return lambda: face.create_auto_cdc_flow(
        **{"target": "t", "source": "s", "keys": ["id"], "sequence_by": "seq", **arguments}
    )


WRONG: list[tuple[Callable[[], object], str, dict[str, object]]] = [
    (flow(keys=[]), "AUTOCDC_EMPTY_KEYS", {"flow": "t"}),
    (flow(keys=None, name="f"), "AUTOCDC_EMPTY_KEYS", {"flow": "f"}),
    (flow(keys="id"), "INVALID_ARGUMENT.TYPE", {"argument": "keys", "actual": "str"}),
    (flow(keys=["id", "id"]), "INVALID_ARGUMENT.VALUE", {"argument": "keys"}),
    (flow(keys=["a.b"]), "AUTOCDC_MULTIPART_COLUMN_IDENTIFIER", {"argument": "keys[0]", "nameParts": ["a", "b"]}),
    (flow(keys=["`a"]), "INVALID_ARGUMENT.VALUE", {"argument": "keys[0]"}),
    (flow(keys=[1]), "INVALID_ARGUMENT.TYPE", {"argument": "keys[0]", "actual": "int"}),
    (flow(sequence_by=None), "AUTOCDC_MISSING_SEQUENCE_BY", {"flow": "t"}),
    (flow(sequence_by=" "), "AUTOCDC_MISSING_SEQUENCE_BY", {"flow": "t"}),
    (flow(sequence_by=3), "INVALID_ARGUMENT.TYPE", {"argument": "sequence_by"}),
    (flow(source=None), "AUTOCDC_MISSING_SOURCE", {"flow": "t"}),
    (flow(source=3), "INVALID_ARGUMENT.TYPE", {"argument": "source"}),
    (flow(target=3), "INVALID_ARGUMENT.TYPE", {"argument": "name"}),
    (flow(name="f", flow_name="g"), "INVALID_ARGUMENT.BOTH", {"first": "name", "second": "flow_name"}),
    (
        flow(column_list=["a"], except_column_list=["b"]),
        "AUTOCDC_BOTH_COLUMN_LIST_AND_EXCEPT_COLUMN_LIST",
        {"flow": "t", "parameter": "column_list"},
    ),
    (
        flow(stored_as_scd_type=2, track_history_column_list=["a"], track_history_except_column_list=["b"]),
        "INVALID_ARGUMENT.BOTH",
        {"first": "track_history_column_list"},
    ),
    (
        flow(ignore_null_updates_column_list=["a"], ignore_null_updates_except_column_list=["b"]),
        "INVALID_ARGUMENT.BOTH",
        {"first": "ignore_null_updates_column_list"},
    ),
    (flow(stored_as_scd_type=3), "INVALID_ARGUMENT.VALUE", {"argument": "stored_as_scd_type", "value": 3}),
    (flow(stored_as_scd_type=True), "INVALID_ARGUMENT.VALUE", {"argument": "stored_as_scd_type"}),
    (flow(track_history_column_list=["a"]), "AUTOCDC_NEEDS_SCD_TYPE", {"needed": 2, "actual": 1}),
    (flow(stored_as_scd_type=2, apply_as_truncates="x"), "AUTOCDC_NEEDS_SCD_TYPE", {"argument": "apply_as_truncates"}),
    (flow(apply_as_deletes=True), "INVALID_ARGUMENT.TYPE", {"argument": "apply_as_deletes", "actual": "bool"}),
    (flow(stored_as_scd_type=2, soft_deletes=True), "AUTOCDC_NEEDS_SCD_TYPE", {"argument": "soft_deletes"}),
    (flow(soft_deletes=1), "INVALID_ARGUMENT.TYPE", {"argument": "soft_deletes", "actual": "int"}),
    (flow(soft_deletes=" "), "INVALID_ARGUMENT.VALUE", {"argument": "soft_deletes"}),
    (flow(soft_deletes="a.b"), "AUTOCDC_MULTIPART_COLUMN_IDENTIFIER", {"argument": "soft_deletes"}),
    (flow(once="yes"), "INVALID_ARGUMENT.TYPE", {"argument": "once"}),
    (flow(key=["id"]), "INVALID_ARGUMENT.UNKNOWN", {"argument": "key", "advice": "Did you mean `keys`?"}),
    (lambda: face.snapshot_flow("t", keys=[]), "AUTOCDC_EMPTY_KEYS", {"function": "snapshot_flow"}),
    (
        lambda: face.create_auto_cdc_from_snapshot_flow("t", 3, ["id"]),
        "INVALID_ARGUMENT.TYPE",
        {"argument": "source"},
    ),
    (
        lambda: face.create_auto_cdc_from_snapshot_flow("t", rows_between, ["id"]),
        "INVALID_ARGUMENT.VALUE",
        {"argument": "source"},
    ),
]


@pytest.mark.parametrize(("call", "condition", "fields"), WRONG, ids=range(len(WRONG)))
def test_a_wrong_argument_is_refused_with_its_name_and_place(
    registry: Registry, call: Callable[[], object], condition: str, fields: dict[str, object]
) -> None:
    """Nothing is registered."""
    with pytest.raises(UserError) as caught:
        call()
    assert caught.value.condition == condition
    assert caught.value.fields | fields == caught.value.fields
    assert caught.value.location is not None
    assert caught.value.location.file == __file__
    assert registry == Registry(catalog="main", schema="shop")
