"""Conditions of updates: tables, streams, quality, retries."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

CONDITIONS: dict[str, Condition] = {
    "TABLE_NOT_OWNED": Condition(
        "The table of {dataset} at {path} was made by {owner}.",
        "Move that table away, or give the dataset another name or `path`.",
    ),
    "PARTITIONING_CHANGED": Condition(
        "{dataset} is partitioned by {stored} and would be by {wanted}.",
        "Rebuild it with `sluice run --full-refresh {dataset}`, or restore `partition_cols`.",
    ),
    "DATASET_NOT_MATERIALIZED": Condition(
        "{dataset} is read but has no table yet.", "Run it first: `sluice run --refresh {dataset}`."
    ),
    "EXPECTATION_VIOLATION": Condition(
        "A row of flow {flow} does not meet {expectation!r}; the batch was rolled back. The row: {row}",
        "Correct the data or the condition, or use `expect_or_drop`.",
    ),
    "PYTHON_EXCEPTION": Condition(
        "A Python function raised an exception while flow {flow} ran: {error}.",
        "Correct the function, or the rows that it cannot process, and run again; committed rows stay.",
    ),
    "FLOW_FAILED": Condition(
        "Flow {flow} failed: {cause}",
        "Correct the cause and run again; what was committed stays, the rest comes again.",
    ),
    "INVALID_CONFIGURATION": Condition("{key} is {value!r}.", "Give {expected}."),
    "REQUEST_INVALID": Condition("The request has {count} faults; nothing was written.", ""),
    "DATASET_NOT_FOUND": Condition(
        "There is no dataset {dataset} in this pipeline.{hint}", "`sluice graph` lists them."
    ),
    "FLOW_NOT_FOUND": Condition("There is no flow {flow} in this pipeline.{hint}", "`sluice plan` lists them."),
    "TABLE_NOT_RESETTABLE": Condition(
        "{dataset} has pipelines.reset.allowed=false and can't be fully refreshed.",
        "Remove the property, or refresh without `--full-refresh`.",
    ),
    "FLOW_NOT_RESETTABLE": Condition(
        "Flow {flow} has no checkpoint to reset; it computes its target anew each time.",
        "Use `--refresh` or `--full-refresh` with its dataset.",
    ),
}
