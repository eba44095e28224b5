"""On Databricks each call of a face arrives at the native module: whole, in order, from the module's own line."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from framework.declare.registry import Registry, registering
from framework.declare.session.mutations import guarded_query
from framework.foundation.errors import UserError
from framework.native.interface import INTERFACE, NativeFunction
from framework.testing.databricks import NativeStandIn, as_on_databricks

ROOT = Path(__file__).parents[3]
HEAD = "from framework import pipelines as dp\n"

# As `dlt` was before its functions got new names, and before some of their parameters were there.
DLT = {
    "table": NativeFunction(optional=("name", "comment", "temporary"), decorator=True, decorates="query_function"),
    "view": NativeFunction(optional=("name", "comment"), decorator=True, decorates="query_function"),
    "create_target_table": NativeFunction(required=("name",), optional=("comment",)),
    "apply_changes": NativeFunction(
        required=("target", "source", "keys", "sequence_by"), optional=("flow_name", "once", "stored_as_scd_type")
    ),
    "expect": NativeFunction(required=("name", "inv"), decorator=True),
    "read": NativeFunction(required=("name",)),
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The path of the test's module."""
    return tmp_path / "module.py"


def load(native: NativeStandIn, file: Path, body: str) -> list[str]:
    """Run a module with the body, and return the forwarded calls."""
    file.write_text(HEAD + textwrap.dedent(body), encoding="utf-8")
    native.load(file)
    return native.text().splitlines()


def test_arguments_arrive_as_the_module_wrote_them_and_defaults_are_left_to_the_native_module(file: Path) -> None:
    """Only given arguments are forwarded, tuples as lists and settings as strings, without `LIVE.` and `format`."""
    body = """\
        dp.create_streaming_table("LIVE.users", comment="All", format="delta", table_properties={"a": True, "b": 2})
        dp.apply_changes(
            target="users", source="LIVE.changes", keys=("id",), sequence_by="seq", flow_name="follow", once=False)
        dp.create_sink("out", "kafka", {"topic": "t", "acks": 1})
        dp.create_auto_cdc_from_snapshot_flow("users", "LIVE.now", ["id"], stored_as_scd_type=2)
    """
    with as_on_databricks() as native:
        assert load(native, file, body) == [
            "line 2: create_streaming_table(name='users', comment='All', table_properties={'a': 'true', 'b': '2'})",
            (
                "line 3: create_auto_cdc_flow(target='users', source='changes', keys=['id'], sequence_by='seq', "
                "name='follow')"
            ),
            "line 5: create_sink(name='out', format='kafka', options={'topic': 't', 'acks': '1'})",
            (
                "line 6: create_auto_cdc_from_snapshot_flow(target='users', source='now', keys=['id'], "
                "stored_as_scd_type=2)"
            ),
        ]


def test_expectations_hold_above_and_below_their_dataset_and_through_decorators_of_ones_own(file: Path) -> None:
    """Those below are applied first, from the lowest up; those above apply to the dataset decorator's return value."""
    body = """\
        import functools
        def doubled(query):
            @functools.wraps(query)
            def twice():
                return query() * 2
            return twice
        @dp.expect("above", "a")
        @dp.table(name="orders", temporary=True)
        @doubled
        @dp.expect_or_drop("below", "b")
        @dp.expect_all({"lowest": "c"})
        def query():
            return [1]
        assert query() == [1, 1]
    """
    with as_on_databricks() as native:
        assert load(native, file, body) == [
            "line 12: expect_all(expectations={'lowest': 'c'}) on query",
            "line 11: expect_or_drop(name='below', inv='b') on query",
            "line 9: table(name='orders', private=True) on query",
            "line 8: expect(name='above', inv='a') on query",
        ]
        assert native.functions["orders"]() == [1, 1]


def test_decorators_stand_bare_or_with_arguments(file: Path) -> None:
    """Sinks get the function's name, hooks their limit; a flow's function is forwarded unchanged."""
    body = """\
        @dp.on_event_hook
        def every(event): ...
        @dp.on_event_hook(max_allowable_consecutive_failures=2)
        def careful(event): ...
        @dp.foreach_batch_sink
        def bare(frame, batch_id): ...
        @dp.foreach_batch_sink("named")
        def other(frame, batch_id): ...
        @dp.append_flow(target="named", once=True)
        def rows():
            return "rows"
        @dp.view
        def seen(): ...
        @dp.materialized_view(refresh_policy="full", cluster_by=("day",))
        def daily(): ...
    """
    with as_on_databricks() as native:
        assert load(native, file, body) == [
            "line 2: on_event_hook() on every",
            "line 4: on_event_hook(max_allowable_consecutive_failures=2) on careful",
            "line 6: foreach_batch_sink(name='bare') on bare",
            "line 8: foreach_batch_sink(name='named') on other",
            "line 10: append_flow(target='named', once=True) on rows",
            "line 13: temporary_view() on seen",
            "line 15: materialized_view(cluster_by=['day'], refresh_policy='full') on daily",
        ]
        assert native.functions["rows"]() == "rows"


def test_our_own_flows_are_made_of_a_view_and_a_native_flow(file: Path) -> None:
    """The view has the query, its settings and its comment; the flow reads the view."""
    body = """\
        @dp.snapshot_flow(target="users", keys=["id"], sequence_by="loaded", spark_conf={"k": 1}, comment="First")
        def now():
            return "rows"
        @dp.auto_cdc_flow(
            target="users", keys=["id"], sequence_by="seq", name="sales.follow", apply_as_deletes="op = 'D'")
        def changes(): ...
    """
    with as_on_databricks() as native:
        assert load(native, file, body) == [
            "line 2: temporary_view(name='now__source', comment='First', spark_conf={'k': '1'}) on now",
            (
                "line 2: create_auto_cdc_flow(target='users', source='now__source', keys=['id'], sequence_by='loaded', "
                "name='now', once=True)"
            ),
            "line 5: temporary_view(name='sales_follow__source') on changes",
            (
                "line 5: create_auto_cdc_flow(target='users', source='sales_follow__source', keys=['id'], "
                "sequence_by='seq', apply_as_deletes=\"op = 'D'\", name='sales.follow')"
            ),
        ]
        assert native.functions["now__source"]() == "rows"


def test_where_only_dlt_is_there_its_older_names_are_used(file: Path) -> None:
    """Functions and parameters that got new names are found under their old ones."""
    body = """\
        dp.create_streaming_table("users")
        @dp.materialized_view(private=True)
        @dp.expect("some", "true")
        def daily():
            return dp.read("LIVE.users")
        @dp.auto_cdc_flow(target="users", keys=["id"], sequence_by="seq")
        def changes(): ...
        daily()
    """
    with as_on_databricks(DLT, module="dlt") as native:
        assert load(native, file, body) == [
            "line 2: create_target_table(name='users')",
            "line 4: expect(name='some', inv='true') on daily",
            "line 3: table(temporary=True) on daily",
            "line 7: view(name='changes__source') on changes",
            (
                "line 7: apply_changes(target='users', source='changes__source', keys=['id'], sequence_by='seq', "
                "flow_name='changes')"
            ),
            "line 6: read(name='users')",
        ]


def fault(file: Path, body: str, interface: dict[str, NativeFunction] | None = None) -> UserError:
    """The error that a module ends with."""
    with as_on_databricks(interface) as native, pytest.raises(UserError) as caught:
        load(native, file, body)
    return caught.value


def test_what_has_no_native_form_is_an_error_at_its_line(file: Path) -> None:
    """Functions and arguments without a native form are named, and nothing is omitted silently."""
    found = fault(file, "dp.create_streaming_table('t', private=True)")
    assert (found.condition, found.fields) == (
        "NATIVE_ARGUMENT_MISSING",
        {"function": "create_streaming_table", "argument": "private"},
    )
    assert str(found.location) == f"{file}:2"
    for text in (
        "dp.create_streaming_table('t', expect_all={'one': 'UNIQUE (id)'})",
        "@dp.expect('one', 'UNIQUE (id)')",
    ):
        found = fault(file, text if text.startswith("dp") else f"{text}\n@dp.table\ndef t(): ...")
        assert (found.condition, found.fields["argument"]) == ("NATIVE_ARGUMENT_MISSING", "UNIQUE (id)")
    without = {name: function for name, function in INTERFACE.items() if name != "on_event_hook"}
    found = fault(file, "\n@dp.on_event_hook\ndef hook(event): ...", without)
    assert (found.condition, found.fields) == (
        "NATIVE_FUNCTION_MISSING",
        {"function": "on_event_hook", "modules": "pyspark.pipelines"},
    )
    assert str(found.location) == f"{file}:3"


def test_faults_that_are_found_here_are_found_there(file: Path) -> None:
    """Unknown arguments, expectations on a flow, names that are missing, decorated values."""
    assert fault(file, "dp.create_sink('s', 'noop', option={})").condition == "INVALID_ARGUMENT.UNKNOWN"
    assert fault(file, "dp.table(3)").condition == "DECORATOR_ARGUMENT_NOT_CALLABLE"
    assert fault(file, "dp.snapshot_flow('t', ['id'], 'seq')(lambda: 1)").condition == "INVALID_ARGUMENT.NO_NAME"
    flow = "@dp.append_flow(target='t')\n@dp.expect_all({'a': 'b'})\ndef rows(): ..."
    found = fault(file, flow)
    assert (found.condition, found.fields) == ("EXPECTATION_ON_FLOW", {"name": "a", "flow": "rows", "target": "t"})


def test_a_decorator_that_gives_nothing_back_can_have_no_expectation_above_it(file: Path) -> None:
    """With Spark's own module, whose decorators return None, this order is an error and not a lost expectation."""
    body = "@dp.expect('a', 'b')\n@dp.table\ndef t(): ..."

    with as_on_databricks() as native:
        arrived = native.module("pyspark.pipelines").table
        sys.modules["pyspark.pipelines"].__dict__["table"] = lambda function: (arrived(function), None)[1]
        with pytest.raises(UserError) as caught:
            load(native, file, body)
    assert caught.value.condition == "NATIVE_DECORATOR_ORDER"
    assert str(caught.value.location) == f"{file}:2"


def test_outside_of_a_pipeline_the_module_says_so(file: Path) -> None:
    """If Databricks has neither native module, declaring raises an error with a remedy."""
    with as_on_databricks(module="none") as native, pytest.raises(UserError) as caught:
        load(native, file, "dp.create_streaming_table('t')")
    assert caught.value.condition == "NATIVE_MODULE_MISSING"


def test_what_sluice_itself_runs_on_databricks_stays_with_sluice(file: Path) -> None:
    """While a registry of Sluice is filled, or a query function runs under its guard, nothing is forwarded."""
    from framework import pipelines as dp

    registry = Registry(catalog="main", schema="shop")
    with as_on_databricks(DLT, module="dlt") as native:
        with registering(registry):
            load(native, file, "dp.create_streaming_table('t')")
        with guarded_query(), pytest.raises(UserError) as caught:
            dp.read("")
    assert native.records == []
    assert [str(dataset.name) for dataset in registry.datasets] == ["main.shop.t"]
    # Ours asks for a session, and where a test before this one started one, for a name.
    assert caught.value.condition in {"NO_ACTIVE_SESSION", "INVALID_ARGUMENT.VALUE"}


def test_elsewhere_nothing_is_forwarded() -> None:
    """Without the runtime's variable a declaration outside of a pipeline is the error it always was."""
    from framework import pipelines as dp

    with pytest.raises(UserError) as caught:
        dp.create_streaming_table("t")
    assert caught.value.condition == "GRAPH_ELEMENT_DEFINED_OUTSIDE_OF_DECLARATIVE_PIPELINE"


def test_the_face_loads_with_nothing_but_python() -> None:
    """Importing it imports no other package, so no dependency is needed."""
    program = """
        import json, sys
        before = set(sys.modules)
        from framework import pipelines
        tops = {name.partition(".")[0] for name in set(sys.modules) - before}
        print(json.dumps(sorted(tops - sys.stdlib_module_names)))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        check=True, capture_output=True, text=True, cwd=ROOT, env={"DATABRICKS_RUNTIME_VERSION": "17.3"},
    )  # fmt: skip
    assert json.loads(done.stdout) == ["framework"]
