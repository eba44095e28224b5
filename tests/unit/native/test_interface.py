"""The interface of the native modules, compared with the installed ones."""

from __future__ import annotations

import inspect
from types import ModuleType

import pyspark.pipelines
import pytest
from pyspark.pipelines import graph_element_registry
from pyspark.pipelines.flow import AutoCdcFlow, Flow
from pyspark.pipelines.output import Output
from pyspark.sql import DataFrame

from framework import pipelines as face
from framework.native.interface import COMPOSED, INTERFACE, LOCAL_ONLY, OLDER_FUNCTIONS, OLDER_PARAMETERS, READS

# In the stubs but not in the reference: a source's older spelling, and settings of Spark's own tables.
_UNTOLD = {"snapshot_and_version", "format"}


class Registered(graph_element_registry.GraphElementRegistry):
    """Records the elements that Spark's own module registers."""

    def __init__(self) -> None:
        self.elements: list[Output | Flow] = []

    def register_output(self, output: Output) -> None:
        """Keep an output."""
        self.elements.append(output)

    def register_flow(self, flow: Flow) -> None:
        """Keep a flow."""
        self.elements.append(flow)

    def register_auto_cdc_flow(self, flow: AutoCdcFlow) -> None:
        """Not reached: it needs Spark Connect."""
        raise AssertionError(flow)

    def register_sql(self, sql_text: str, file_path: object) -> None:
        """Not reached."""
        raise AssertionError(sql_text, file_path)


def unknown(module: ModuleType) -> list[str]:
    """The functions and parameters of a native module that our interface lacks."""
    known = {old: INTERFACE[new] for new, olds in OLDER_FUNCTIONS.items() if new in INTERFACE for old in olds}
    known |= dict(INTERFACE)
    found = []
    for name in set(dir(module)) & set(known):
        parameters = inspect.signature(getattr(module, name)).parameters.values()
        ours = {*known[name].parameters, known[name].decorates, *_UNTOLD}
        ours |= {old for new, old in OLDER_PARAMETERS.items() if new in ours}
        found += [f"{name}.{each.name}" for each in parameters if each.kind not in (2, 4) and each.name not in ours]
    return sorted(found)


def test_every_call_of_the_face_has_a_native_form() -> None:
    """Each function is native, composed of native ones, an older name of one, or refused on Databricks."""
    older = {name for names in OLDER_FUNCTIONS.values() for name in names} | {"create_table", "create_view"}
    assert set(face.__all__) == {*INTERFACE, *READS, *COMPOSED, *LOCAL_ONLY} | older


def test_spark_s_own_module_is_a_part_of_the_interface() -> None:
    """The interface has every function and parameter of the open source module."""
    assert unknown(pyspark.pipelines) == []
    assert set(pyspark.pipelines.__all__) - set(INTERFACE) == set()


def test_the_stubs_of_dlt_are_a_part_of_the_interface() -> None:
    """The interface has every function and parameter of Databricks' installed stubs, under one of their names."""
    stubs = pytest.importorskip("dlt", reason="databricks-dlt is not installed")
    if not hasattr(stubs, "apply_changes"):
        pytest.skip("this dlt is another product")
    assert unknown(stubs) == []


def test_spark_s_own_module_takes_forwarded_calls_and_sees_the_lines_of_the_module(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A real native module registers the forwarded calls, each element with the line that declares it."""
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")
    registered = Registered()
    with graph_element_registry.graph_element_registration_context(registered):
        face.create_streaming_table("orders", table_properties={"a": "b"})
        here = inspect.currentframe()
        assert here is not None
        line = here.f_lineno - 3

        @face.append_flow(target="orders", name="north")
        def rows() -> DataFrame:
            raise NotImplementedError

        @face.materialized_view
        def daily() -> DataFrame:
            raise NotImplementedError

    found = [
        (type(each).__name__, each.name, each.source_code_location.filename, each.source_code_location.line_number)
        for each in registered.elements
    ]
    assert found == [
        ("StreamingTable", "orders", __file__, line),
        ("Flow", "north", __file__, line + 5),
        ("MaterializedView", "daily", __file__, line + 9),
        ("Flow", "daily", __file__, line + 9),
    ]
