"""User actions on a flow's checkpoint between updates: reset and roll-back.

No update runs meanwhile, because the update lock is held. The event log records the user and the action.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from framework.cdc.model.reserved_names import HIDDEN_COLUMN
from framework.checkpoints.generations import Generation, GenerationState, GenerationStore, Manifest
from framework.checkpoints.rebuilds import RebuildStore
from framework.checkpoints.reset_requests import ResetRequest, ResetRequests
from framework.checkpoints.rewinds import RewindStore
from framework.checkpoints.roll_back import kept_generations, last_kept, written_since
from framework.checkpoints.table_marks import read_mark
from framework.foundation.clock import SystemClock
from framework.foundation.errors import OperationError, UserError
from framework.foundation.files.storage_port import Storage
from framework.foundation.names import QualifiedName
from framework.foundation.nearest import is_named, meant_names, plain_name, qualified_hint
from framework.foundation.processes import user_name
from framework.record.drafts import user_action
from framework.record.events import EventType, Origin
from framework.record.log import EventLog
from framework.record.reader import read_events
from framework.run.tables.marked_tables import mark_recorded_table
from framework.run.tables.table_record import StorageLayout, TableRecord, read_record
from framework.run.update.lock import update_lock
from framework.sources.delta.history import batches_in

_REWIND = " To have the table of that time back, with its checkpoint: `sluice rewind --to TIME --dry-run`."


def reset_checkpoint(
    storage: Storage,
    pipeline: str,
    flow: str,
    starts: Callable[[QualifiedName], str | None] = lambda _: None,
    *,
    target: str | None = None,
) -> tuple[Manifest, Generation | None]:
    """Begin a new generation of a flow; the next update reads its sources from their start.

    A running continuous update does this itself as soon as the flow does not run, such as after a failure; other flows
    continue.

    Args:
        storage: the pipeline's storage.
        pipeline: the pipeline's name, for the event log.
        flow: the flow's name, or its last parts if they are unambiguous.
        starts: returns where the sources of a flow, given by its full name, start, in the form of the manifest.
        target: the flow's target, needed if flows of several datasets have this name.

    Returns:
        The flow, and its new generation, or None if the running update will begin it.

    Raises:
        UserError: CHECKPOINT_FLOW_NOT_FOUND, CHECKPOINT_FLOW_AMBIGUOUS, FULL_REFRESH_UNFINISHED; errors of `starts`.
        OperationError: an update that is not continuous, or another command, holds the lock; REWIND_UNFINISHED.
    """

    def request() -> tuple[Manifest, ResetRequest]:
        manifest = find_flow(storage, flow, target, pipeline=pipeline)
        RebuildStore(storage).check_finished(manifest.dataset)
        start = starts(manifest.flow)
        current = manifest.in_state(GenerationState.CURRENT)
        ends = None if current is None else current.number
        return manifest, ResetRequest(dataset=manifest.dataset, flow=manifest.flow, start=start, ends=ends)

    resets = ResetRequests(storage, SystemClock())
    try:
        with changing(storage, pipeline) as log:
            manifest, asked = request()
            generation = begin_reset(resets, storage, asked)
            _record(log, f"Checkpoint of {manifest.flow} reset: generation {generation.number} begins.")
            return manifest, generation
    except OperationError as error:
        if error.condition != "UPDATE_ALREADY_RUNNING" or not _is_continuous(storage, error.fields["update"]):
            raise
    RewindStore(storage).check_none()
    manifest, asked = request()
    resets.ask(asked)
    with EventLog(storage, Origin.of(pipeline, storage.root, str(uuid.uuid4()))) as log:
        _record(log, f"Checkpoint of {manifest.flow} is to be reset by the update that runs.")
    return manifest, None


def begin_reset(resets: ResetRequests, storage: Storage, request: ResetRequest) -> Generation:
    """Reset a flow that does not run, under the lock; its mark excludes older copies of its present table."""
    generation = resets.begin(request)
    mark = read_mark(storage, request.dataset, request.flow)
    if mark is None or mark.generation != generation.number:  # the generation is new, or a crash left it without a mark
        mark_recorded_table(storage, request.dataset, request.flow, generation.number)
    return generation


def _record(log: EventLog, text: str) -> None:
    log.record(user_action(action="RESET_CHECKPOINT", user_name=user_name(), message=text))


def _is_continuous(storage: Storage, holder: object) -> bool:
    """Whether a continuous update holds the lock; rewinds, replays and prunes don't record a created update."""
    created = read_events(storage, type=EventType.CREATE_UPDATE, last=1)
    return any(
        event.origin.update_id == holder and event.details.get(str(EventType.CREATE_UPDATE), {}).get("continuous")
        for event in created
    )


def roll_back_checkpoint(
    storage: Storage,
    pipeline: str,
    flow: str,
    number: int | None = None,
    *,
    target: str | None = None,
    allow_repeats: bool = False,
    check: Callable[[], None] = lambda: None,
) -> tuple[Manifest, Generation]:
    """Make a kept generation of a flow current again; the next update continues from it.

    An appending flow reads again the rows that other generations have read since, so that the table would have them
    twice. This is refused unless `allow_repeats` is set.

    Args:
        storage: the pipeline's storage.
        pipeline: the pipeline's name, for the event log.
        flow: the flow's name, or its last parts if they are unambiguous.
        number: the generation; None for the kept generation that was current last, preferably one that has read
            anything.
        target: the flow's target, needed if flows of several datasets have this name.
        allow_repeats: whether the target of an appending flow may get rows twice.
        check: called under the lock, before anything is changed.

    Raises:
        UserError: CHECKPOINT_FLOW_NOT_FOUND, CHECKPOINT_FLOW_AMBIGUOUS, FULL_REFRESH_UNFINISHED, GENERATION_NOT_KEPT,
            GENERATION_BEFORE_REFRESH, GENERATION_READ_SINCE.
        OperationError: an update is running.
    """
    with changing(storage, pipeline) as log:
        check()
        manifest = find_flow(storage, flow, target, pipeline=pipeline)
        RebuildStore(storage).check_finished(manifest.dataset)
        record = read_record(storage, StorageLayout(storage=storage), manifest.dataset)
        appends = _appends(record) and not allow_repeats
        generation = _kept(storage, manifest, number, appends=appends)
        if appends:
            _check_read_since(storage, manifest, generation, None if record is None else record.path)
        GenerationStore(storage).restore(manifest.dataset, manifest.flow, generation.number)
        repeats = ", and rows may repeat" if allow_repeats else ""
        text = f"Checkpoint of {manifest.flow} rolled back to generation {generation.number}{repeats}."
        log.record(user_action(action="ROLLBACK", user_name=user_name(), message=text))
        return manifest, generation


def find_flow(storage: Storage, flow: str, target: str | None = None, *, pipeline: str) -> Manifest:
    """Return the manifest of the flow with this name.

    A flow that moved to another dataset has two manifests: its earlier checkpoint is kept until `sluice prune`.

    Raises:
        UserError: CHECKPOINT_FLOW_NOT_FOUND with the nearest name, CHECKPOINT_FLOW_AMBIGUOUS.
        OperationError: TABLE_NOT_OWNED if its table or sink belongs to another pipeline.
    """
    manifests = [
        each
        for each in GenerationStore(storage).list_all()
        if target is None or is_named(str(each.dataset), plain_name(target))
    ]
    names = dict.fromkeys(str(each.flow) for each in manifests)
    meant = meant_names(flow, names)
    matches = [each for each in manifests if str(each.flow) in meant]
    if len(matches) > 1:
        flows = ", ".join(f"{each.flow} into {each.dataset}" for each in matches)
        raise UserError("CHECKPOINT_FLOW_AMBIGUOUS", flow=flow, flows=flows)
    if not matches:
        hint = qualified_hint(flow, names)
        raise UserError("CHECKPOINT_FLOW_NOT_FOUND", flow=flow, storage=storage.root, hint=hint)
    found = matches[0]
    record = read_record(storage, StorageLayout(storage=storage), found.dataset)
    owner, path = (found.owner, "") if record is None else (record.pipeline, record.path)
    if owner and owner != pipeline:
        raise OperationError(
            "TABLE_NOT_OWNED",
            dataset=found.dataset,
            path=path or storage.root,
            owner=f"pipeline {owner}",
            advice="",
        )
    return found


def _kept(storage: Storage, manifest: Manifest, number: int | None, *, appends: bool) -> Generation:
    """Return the kept generation with this number; None chooses the last current one that has read anything."""
    chosen = last_kept(manifest, appends=appends, numbers=None if number is None else (number,), storage=storage)
    if chosen is not None:
        return chosen
    before = last_kept(manifest, appends=False, numbers=None if number is None else (number,))
    if before is not None:
        raise UserError("GENERATION_BEFORE_REFRESH", flow=manifest.flow, number=before.number, dataset=manifest.dataset)
    kept = ", ".join(str(each.number) for each in kept_generations(manifest, appends=appends)) or "none"
    raise UserError("GENERATION_NOT_KEPT", flow=manifest.flow, wanted="" if number is None else f" {number}", kept=kept)


def _check_read_since(storage: Storage, manifest: Manifest, chosen: Generation, table: str | None) -> None:
    """Check that no other generation has written to a table, or a sink (None), since the chosen one was current."""
    since = written_since(storage, manifest, chosen, batches_in(storage, table))
    if since:
        rewind = "" if table is None else _REWIND
        raise UserError(
            "GENERATION_READ_SINCE",
            flow=manifest.flow,
            number=chosen.number,
            dataset=manifest.dataset,
            rewind=rewind,
            since=", ".join(str(each.number) for each in since),
        )


def _appends(record: TableRecord | None) -> bool:
    """Whether the flows of a dataset append their rows, according to the columns in its table's record.

    A sink has no record, and appends rows that are read again.
    """
    columns = [] if record is None or not record.schema else json.loads(record.schema)["fields"]
    return all(column["name"] != HIDDEN_COLUMN for column in columns)


@contextmanager
def changing(storage: Storage, pipeline: str) -> Iterator[EventLog]:
    """Hold the update lock and open an event log for one change, unless a rewind is unfinished.

    The change and its event are two durable effects. After a crash in between, the change is in
    effect and only its event is missing; the manifest records when and why a generation began.
    """
    action_id = str(uuid.uuid4())
    origin = Origin.of(pipeline, storage.root, action_id)
    with update_lock(storage, action_id):
        RewindStore(storage).check_none()
        with EventLog(storage, origin) as log:
            yield log
