"""Detects flows that can't continue from their checkpoints, by comparing the stored query with the present one.

Reports only differences with which Spark or Delta certainly fails. Spark takes settings such as the number of shuffle
partitions and the state store provider from the checkpoint, so a change of these has no effect. Names of keys may
change, too.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from framework.checkpoints.operators import StatefulOperator
from framework.foundation.conditions.recovery import PUT_BACK, SOURCES_CHANGED, UNREADABLE_COMMITS
from framework.foundation.names import QualifiedName
from framework.foundation.wording import counted
from framework.graph.graph import GraphDataset, GraphFlow
from framework.plan.history import why_no_history
from framework.plan.state import FlowState
from framework.plan.steps import Breakage
from framework.sources.port import Gap

_OPERATORS = "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
_NO_STATE = "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY"
_KEYS = "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE"
_VALUES = "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"
_NO_METADATA = "STREAMING_CHECKPOINT_MISSING_METADATA_FILE"
_NO_VERSION = "CANNOT_LOAD_STATE_STORE"
_FILE = "CHECKPOINT_FILE_DAMAGED"
_WENT_BACK = "TABLE_OLDER_THAN_CHECKPOINT"
_REWOUND = "CHECKPOINT_OLDER_THAN_REWIND"
_PUT_BACK = "Put the files of the checkpoint back, as they were last."
RESTORE = {
    SOURCES_CHANGED: "Restore the sources of its query.",
    _OPERATORS: "Restore the query.",
    _NO_STATE: "Restore the query.",
    _KEYS: "Restore the query.",
    _VALUES: "Restore the query.",
    "STREAMING_QUERY_EVOLUTION_ERROR": "Restore the query.",
    "STATE_STORE_INVALID_CONFIG_AFTER_RESTART": "Restore the setting.",
    _NO_METADATA: _PUT_BACK,
    _NO_VERSION: _PUT_BACK,
    _FILE: _PUT_BACK,
    "CLOUD_FILES_POSITION_LOST": _PUT_BACK,
    _WENT_BACK: "Put the newer folder back.",
    PUT_BACK: "Put the newer folder of the source back.",
    _REWOUND: "Go back to the same time once more, with this storage: `sluice rewind --to TIME`.",
    "DELTA_SOURCE_IGNORE_DELETE": "Read the table's change feed, or set the read option `skipChangeCommits`.",
    "DELTA_SOURCE_TABLE_IGNORE_CHANGES": "Read the table's change feed, or set the read option `skipChangeCommits`.",
}
"""What to restore or change, by condition."""

_DAMAGED = frozenset(
    {
        "CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED",
        "CLOUD_FILES_POSITION_LOST",
        _FILE,
        _NO_METADATA,
        _NO_STATE,
        _NO_VERSION,
    }
)


def foretell(dataset: GraphDataset, flow: GraphFlow, state: FlowState) -> Breakage | None:
    """Return why the next run of a flow fails; None if it runs, or if the result is uncertain."""
    found = _of_table(dataset, state)
    if found is None and flow.spec.once and state.completed:
        return None
    # In the order of Spark's own checks.
    found = found or _of_checkpoint(dataset, state) or _of_files(state)
    found = found or _of_sources(flow, state) or _of_operators(flow, state)
    found = found or _of_gaps(state.gaps)
    if found is None:
        return None
    condition, problem = found
    return Breakage(condition=condition, problem=problem, ways=ways_out(condition, dataset, flow, state))


def foretell_rebuild(dataset: GraphDataset, state: FlowState) -> Breakage | None:
    """Return why a flow can't continue an unfinished full refresh; None if it can."""
    if state.misplaced is not None:
        condition, problem = SOURCES_CHANGED, _other_order(*state.misplaced)
    else:
        found = _of_gaps(state.rebuild_gaps)
        if found is None:
            return None
        condition, problem = found
    again = f"Or: begin the full refresh again: `sluice run --full-refresh {dataset.name}`."
    return Breakage(condition=condition, problem=problem, ways=f"{RESTORE[condition]}\n  -> {again}")


def ways_out(condition: str, dataset: GraphDataset, flow: GraphFlow, state: FlowState) -> str:
    """Return the ways to repair a breakage, best first, as lines of a remedy.

    Args:
        condition: the condition of the breakage.
        dataset: the flow's target.
        flow: the flow.
        state: its checkpoint.
    """
    is_damaged = condition in {damage.condition for damage in state.damages}
    first = _PUT_BACK if is_damaged else RESTORE.get(condition.partition(".")[0])
    lines = [] if first is None else [first]
    lines.append(_reset(condition, dataset, flow, state))
    if condition.partition(".")[0] in _DAMAGED and state.has_kept and not state.restarted:
        # A reset may repeat fewer rows than a roll-back to a generation from before the latest batches.
        lines.insert(len(lines) - (not state.repeats), _roll_back(dataset, flow, state))
    if dataset.is_table and not state.begins_late:  # a full refresh would leave out rows that the table has
        lines.append(
            f"Rebuild the table from all data that its sources still have: `sluice run --full-refresh {dataset.name}`."
        )
        if not why_no_history(dataset, (flow,)):
            keys = " --history-keys KEYS" if dataset.cdc is None else ""
            lines.append(
                "Rebuild the table, and put back the rows that its sources no longer have: "
                f"`sluice run --full-refresh {dataset.name} --keep-history{keys}`."
            )
    if condition == PUT_BACK:  # only a full refresh removes the rows that the source no longer has
        lines.append(lines.pop(1))
    return "\n  -> ".join([lines[0], *(f"Or: {line[0].lower()}{line[1:]}" for line in lines[1:])])


def dropped_columns_ways(dataset: QualifiedName, flow: GraphFlow, first: int, *, is_rebuilt: bool) -> str:
    """Return the ways to repair a flow that starts before its Delta source dropped or renamed columns.

    Args:
        dataset: its target.
        flow: the flow.
        first: the first version of the source with the present columns.
        is_rebuilt: whether a full refresh of its target has failed.
    """
    start = f"startingVersion={first}"
    code = f"Let the code begin at `{start}` or later, then start over: `sluice run --full-refresh {dataset}`."
    if is_rebuilt:
        return code
    starts = start if flow.source_count == 1 else f"SOURCE:START, with {start} for this table"
    return (
        f"Keep the table, and begin there: `sluice run --reset-checkpoint {flow.spec.name} --from {starts}`. `sluice "
        f"doctor` counts the rows that this skips.\n  -> Or: rebuild the table. A code that begins before it would "
        f"fail again. {code}"
    )


def describe_operators(operators: Sequence[StatefulOperator]) -> str:
    """Return the stateful operators of a query, in words that users know."""
    if not operators:
        return "no stateful operator"
    return ", ".join(f"{operator.words} (operator {operator.number})" for operator in operators)


def _reset(condition: str, dataset: GraphDataset, flow: GraphFlow, state: FlowState) -> str:
    command = f"sluice run --reset-checkpoint {flow.spec.name}"
    repeats = "Repeated events change nothing." if dataset.cdc is not None else "Rows that are read again repeat."
    if condition.startswith("KAFKA_DATA_LOSS"):
        return f"Keep the table, and read what the topic still has: `{command} --from earliest`. {repeats}"
    if may_resume(condition, state):
        command += "".join(f" --from {shlex.quote(start)}" for start in state.resume)
        # If the checkpoint, or a part of it, is an older copy, it ends before the table does.
        again = " Rows of the batches that only the table has repeat." if state.deleted and dataset.cdc is None else ""
        return f"Keep the table, and continue where the checkpoint ends, with an empty state: `{command}`.{again}"
    if state.begins_late:
        command += " --from START" if flow.source_count == 1 else " --from SOURCE:START"
        each = "its source" if flow.source_count == 1 else "each source"
        return f"Keep the table, and give {each} a start that is not behind unread rows: `{command}`. {repeats}"
    return f"Keep the table, and read the sources from their start, or with `--from START`: `{command}`. {repeats}"


def _roll_back(dataset: GraphDataset, flow: GraphFlow, state: FlowState) -> str:
    command = f"sluice checkpoints rollback {flow.spec.name} --target {dataset.name}"
    if not state.repeats:
        return f"Continue from a kept generation: `{command}`."
    return f"Continue from a kept generation: `{command} --allow-repeats`. Rows that were read since repeat."


def may_resume(condition: str, state: FlowState) -> bool:
    """Whether a reset may start at the checkpoint's end: the position is known, and the sources still have it."""
    lost = {_WENT_BACK, _REWOUND, *UNREADABLE_COMMITS, *(gap.condition for gap in state.gaps)}
    return bool(state.resume) and not state.restarted and condition not in lost


def _of_table(dataset: GraphDataset, state: FlowState) -> tuple[str, str] | None:
    """Detect a table that is older than the checkpoint: the flow would not read the missing rows again."""
    if state.rewound:
        return _REWOUND, (
            f"{dataset.name.table} was rewound, and the checkpoint that belongs to it is not here. The storage is "
            "an older copy. The flow would not read the rows again that the rewind has undone, or write rows again "
            "that have come since."
        )
    if not state.went_back:
        return None
    return _WENT_BACK, (
        f"{dataset.name.table} {state.went_back}. The position of the flow is not that of its rows: the flow would not "
        "read rows again that are gone, or repeat rows that are there."
    )


def _of_checkpoint(dataset: GraphDataset, state: FlowState) -> tuple[str, str] | None:
    """Detect a lost or older checkpoint: Spark would read from the start and append rows that the table has."""
    if state.generation is None and state.unknown_rows:
        would = "append them again"
        if dataset.cdc is not None:
            would = "pass over rows that have come since, because its query begins with new rows only"
        return _NO_METADATA, (
            f"{dataset.name.table} has rows of a flow whose checkpoint is not here: it was deleted with its "
            f"manifest, or is that of another dataset or storage. A first run would {would}."
        )
    if state.restarted:
        return _NO_METADATA, (
            f"the flow has begun anew since, and the checkpoint of rows that {dataset.name.table} has is not here: the "
            "storage, or its checkpoints, are an older copy."
        )
    if state.refreshed:
        return _NO_METADATA, (
            f"a full refresh has replaced the rows of {dataset.name.table} since, and its checkpoint is not here: the "
            "storage, or its checkpoints, are an older copy, or another copy of it did the refresh."
        )
    if not state.deleted:
        return None
    if state.begins_late:
        would = "would pass over unread ones, or read earlier ones, if it began again"
        return _NO_METADATA, f"files of it are gone. It did not begin with all rows, and {would}."
    return _NO_METADATA, f"files of it are gone, and {dataset.name.table} has rows of batches that it does not have."


def _of_files(state: FlowState) -> tuple[str, str] | None:
    """Return the first damaged file of the checkpoint."""
    damage = next(iter(state.damages), None)
    return None if damage is None else (damage.condition, f"{damage.problem} File: {damage.path}.")


def _of_operators(flow: GraphFlow, state: FlowState) -> tuple[str, str] | None:
    """Compare the stateful operators of the checkpoint with the present ones."""
    stored = state.query.operators if state.query is not None else None
    present = flow.operators
    if stored is None or present is None:
        return None
    if present and not stored:
        return _NO_STATE, f"it holds no state, and the query now has {describe_operators(present)}."
    if [(each.number, each.name) for each in stored] != [(each.number, each.name) for each in present]:
        problem = f"it holds the state of {describe_operators(stored)}, and the query now has "
        return _OPERATORS, f"{problem}{describe_operators(present)}."
    for was, now in zip(stored, present, strict=True):
        if _differ(was.key_types, now.key_types):
            return _KEYS, _changed("key", was, was.key_types, now.key_types)
        if _differ(was.value_types, now.value_types):
            return _VALUES, _changed("value", was, was.value_types, now.value_types)
    return None


def _differ(stored: str | None, present: str | None) -> bool:
    return stored is not None and present is not None and stored != present


def _changed(what: str, operator: StatefulOperator, stored: str | None, present: str | None) -> str:
    return (
        f"the {what} of {operator.words} (operator {operator.number}) has the types {stored}, and in the query now "
        f"{present}."
    )


def _of_sources(flow: GraphFlow, state: FlowState) -> tuple[str, str] | None:
    stored = state.query.source_count if state.query is not None else None
    present = flow.source_count
    if stored is not None and present is not None and stored != present:
        problem = f"it holds the positions of {counted(stored, 'source')}, and the query now has {present}."
        return SOURCES_CHANGED, problem
    return None if state.misplaced is None else (SOURCES_CHANGED, _other_order(*state.misplaced))


def _other_order(now: str, was: str) -> str:
    return (
        f"it knows its sources by their order, and the query now reads {now} at the position of {was}: what was read "
        "of the one would count as read of the other."
    )


def _of_gaps(gaps: Sequence[Gap]) -> tuple[str, str] | None:
    """Return the first lost position; a table that does not exist yet is no gap, because this update may create it."""
    for gap in gaps:
        if gap.condition != "DELTA_TABLE_NOT_FOUND":
            return gap.condition, f"{gap.problem} Source: {gap.location}."
    return None
