"""The plan names what a streaming table keeps and no flow writes, wherever in a column it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from framework.declare.specs import AutoCdcSpec, ColumnSelection, DatasetKind, DatasetSpec, FlowSpec
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow
from framework.plan.unwritten_columns import unwritten_columns

NAME = QualifiedName(catalog="main", schema="s", table="t")


def struct(**fields: Any) -> dict[str, Any]:
    """A struct in the JSON of Spark's types; a name may have `_dot_` for a dot."""
    listed = [{"name": name.replace("_dot_", "."), "type": kind, "nullable": True} for name, kind in fields.items()]
    return {"type": "struct", "fields": listed}


def array(element: Any) -> dict[str, Any]:
    """An array."""
    return {"type": "array", "elementType": element, "containsNull": True}


def mapping(key: Any, value: Any) -> dict[str, Any]:
    """A map."""
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def kept(stored: dict[str, Any], written: dict[str, Any], cdc: AutoCdcSpec | None = None) -> tuple[str, ...]:
    """What a table with the stored columns keeps."""
    spec = DatasetSpec(name=NAME, kind=DatasetKind.STREAMING_TABLE)
    dataset = GraphDataset(spec=spec, kind=spec.kind, schema=json.dumps(stored))
    flow = GraphFlow(spec=FlowSpec(name=NAME, target=NAME, cdc=cdc), schema=json.dumps(written))
    return unwritten_columns(DataflowGraph(pipeline="p", datasets=(dataset,), flows=(flow,)), dataset)


@pytest.mark.parametrize(
    ("stored", "written", "expected"),
    [
        (struct(a=array(struct(x="long", y="long"))), struct(a=array(struct(x="long"))), ("a.element.y",)),
        (struct(a=array(struct(x="long"))), struct(A=array(struct(X="long"))), ()),
        (struct(a=array(array(struct(x="long", y="long")))), struct(a=array(array(struct(x="long")))),
         ("a.element.element.y",)),
        (struct(m=mapping("string", struct(x="long", y="long"))), struct(m=mapping("string", struct(x="long"))),
         ("m.value.y",)),
        (struct(m=mapping(struct(k="long", l="long"), "string")), struct(m=mapping(struct(k="long"), "string")),
         ("m.key.l",)),
        (struct(s=struct(a=array(struct(m=mapping("string", struct(y=struct(z="long"), x="long")))))),
         struct(s=struct(a=array(struct(m=mapping("string", struct(x="long")))))), ("s.a.element.m.value.y",)),
        (struct(a=array(struct(x="long")), b="long"), struct(b="long"), ("a",)),
        (struct(a=struct(b="long"), a_dot_b="long"), struct(a_dot_b="long"), ("a",)),
        (struct(a=struct(b="long"), a_dot_b="long"), struct(a=struct(b="long")), ("a.b",)),
    ],
)  # fmt: skip
def test_fields_of_arrays_and_maps_are_named(
    stored: dict[str, Any], written: dict[str, Any], expected: tuple[str, ...]
) -> None:
    """By the path that Delta has for them, the outermost ones only; a name with a dot is one name."""
    assert kept(stored, written) == expected


def test_auto_cdc_selects_columns_with_a_dot_in_their_names() -> None:
    """The selection has names of columns, not paths."""
    columns = struct(id="long", a_dot_b="long", c=array(struct(x="long")))
    cdc = AutoCdcSpec(keys=("id",), sequence_by="id", columns=ColumnSelection(columns=("a.b",), excluded=True))
    assert kept(columns, columns, cdc) == ("a.b",)
