"""What a pipeline module imports: `from framework import pipelines as dp`.

The same names as `pyspark.pipelines` and `dlt`, so a module moves between the three by its import line.
Declaring does nothing but record: query functions are called when the pipeline is resolved and run.
"""

from __future__ import annotations

from framework.declare.face import (
    append_flow,
    apply_changes,
    apply_changes_from_snapshot,
    auto_cdc_flow,
    create_auto_cdc_flow,
    create_auto_cdc_from_snapshot_flow,
    create_sink,
    create_streaming_live_table,
    create_streaming_table,
    create_table,
    create_target_table,
    create_view,
    expect,
    expect_all,
    expect_all_or_drop,
    expect_all_or_fail,
    expect_or_drop,
    expect_or_fail,
    foreach_batch_sink,
    materialized_view,
    on_event_hook,
    read,
    read_stream,
    readStream,
    snapshot_flow,
    table,
    temporary_view,
    view,
)

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
