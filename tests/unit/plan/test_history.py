"""The tables whose lost rows can't be put back, each with its reason."""

from __future__ import annotations

from framework.cdc.model.target_plan import TargetPlan
from framework.declare.specs import DatasetKind, DatasetSpec, FlowSpec
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow
from framework.plan.history import ALL_COLUMNS, history_faults, why_no_history
from framework.plan.request import UpdateRequest
from framework.sources.port import SourceReference, SourceShape

NAME = QualifiedName(catalog="main", schema="s", table="t")


def dataset(kind: DatasetKind = DatasetKind.STREAMING_TABLE, cdc: TargetPlan | None = None) -> GraphDataset:
    """A dataset of a kind."""
    return GraphDataset(spec=DatasetSpec(name=NAME, kind=kind), kind=kind, schema="{}", cdc=cdc)


def flow(*kinds: str, from_snapshots: bool = False) -> GraphFlow:
    """A flow with sources of these kinds."""
    sources = tuple(SourceReference(kind=kind, shape=SourceShape.STREAM) for kind in kinds)
    return GraphFlow(spec=FlowSpec(name=NAME, target=NAME, from_snapshots=from_snapshots), sources=sources)


def test_what_has_no_history_to_put_back() -> None:
    """Views, targets of snapshots, copies of databases; anything else that streams into a table has one."""
    first_words = {
        kind: reason.partition(",")[0]
        for kind, reason in {
            "files": why_no_history(dataset(), [flow("cloud_files")]),
            "view": why_no_history(dataset(DatasetKind.MATERIALIZED_VIEW), [flow()]),
            "sink": why_no_history(dataset(DatasetKind.SINK), [flow("delta")]),
            "snapshots": why_no_history(dataset(), [flow(from_snapshots=True)]),
            "database": why_no_history(dataset(), [flow("cloud_files"), flow("database_changes")]),
        }.items()
    }
    assert first_words == {
        "files": "",
        "view": "a materialized view has only the rows of its query",
        "sink": "it is not a streaming table",
        "snapshots": "it compares snapshots",
        "database": "it copies a database",
    }


def test_a_target_of_auto_cdc_has_its_own_keys() -> None:
    """Other keys would identify other rows than the events do."""
    target = TargetPlan(name=NAME, keys=("id", "day"), scd_type=1, table_json="{}", literal_flows=())
    graph = DataflowGraph(pipeline="p", datasets=(dataset(cdc=target),), flows=(flow("delta"),))
    (fault,) = history_faults(graph, UpdateRequest(full_refresh=(NAME,), keep_history=True, history_keys=("id",)))
    assert fault.condition == "HISTORY_KEYS_OF_AUTO_CDC"
    assert fault.fields["keys"] == "id, day"


def test_tables_with_keys_of_their_own_may_be_beside_one_that_needs_them() -> None:
    """The keys are those of the append table."""
    target = TargetPlan(name=NAME, keys=("id",), scd_type=1, table_json="{}", literal_flows=())
    other = QualifiedName(catalog="main", schema="s", table="other")
    append = GraphDataset(
        spec=DatasetSpec(name=other, kind=DatasetKind.STREAMING_TABLE), kind=DatasetKind.STREAMING_TABLE, schema="{}"
    )
    graph = DataflowGraph(pipeline="p", datasets=(dataset(cdc=target), append), flows=(flow("delta"),))
    both = UpdateRequest(full_refresh=(NAME, other), keep_history=True, history_keys=ALL_COLUMNS)
    assert history_faults(graph, both) == []
