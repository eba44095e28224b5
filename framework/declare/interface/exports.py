"""The public interface of pipeline modules: every name that they may import, in all spellings.

`framework.pipelines` re-exports it, and the shims provide it as `pyspark.pipelines` and `dlt`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from framework.declare.interface.auto_cdc import auto_cdc_flow, create_auto_cdc_flow, snapshot_flow
from framework.declare.interface.expectations import (
    expect,
    expect_all,
    expect_all_or_drop,
    expect_all_or_fail,
    expect_or_drop,
    expect_or_fail,
)
from framework.declare.interface.flows import append_flow
from framework.declare.interface.hooks import on_event_hook
from framework.declare.interface.ingestion import ingest_database
from framework.declare.interface.reads import read, read_stream
from framework.declare.interface.sinks import create_sink, foreach_batch_sink
from framework.declare.interface.snapshots import create_auto_cdc_from_snapshot_flow
from framework.declare.interface.tables import create_streaming_table, materialized_view, table, temporary_view

# Older names of the same functions, still used by modules written for DLT.
view = temporary_view
create_table = table
create_view = temporary_view
create_target_table = create_streaming_table
create_streaming_live_table = create_streaming_table
apply_changes = create_auto_cdc_flow
apply_changes_from_snapshot = create_auto_cdc_from_snapshot_flow
readStream = read_stream  # noqa: N816 - DLT's spelling

__all__ = [
    "append_flow",
    "apply_changes",
    "apply_changes_from_snapshot",
    "auto_cdc_flow",
    "create_auto_cdc_flow",
    "create_auto_cdc_from_snapshot_flow",
    "create_sink",
    "create_streaming_live_table",
    "create_streaming_table",
    "create_table",
    "create_target_table",
    "create_view",
    "expect",
    "expect_all",
    "expect_all_or_drop",
    "expect_all_or_fail",
    "expect_or_drop",
    "expect_or_fail",
    "foreach_batch_sink",
    "ingest_database",
    "materialized_view",
    "on_event_hook",
    "read",
    "readStream",
    "read_stream",
    "snapshot_flow",
    "table",
    "temporary_view",
    "view",
]

INTERFACE: Mapping[str, object] = MappingProxyType({name: globals()[name] for name in __all__})
