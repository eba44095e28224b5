"""The generation numbers of a flow, in its manifest and in the transactions of its table.

When an older backup of the storage is restored, a table with a `path` outside the storage stays as it is. So does any
table when only the checkpoints are restored. Then the table has batches and generation names that the manifest lacks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from framework.checkpoints.generations import GenerationStore
from framework.engine.delta.table_version import TableVersion, can_open
from framework.engine.sessions.execution import active_session
from framework.foundation.files.storage_port import Storage
from framework.foundation.names import QualifiedName
from framework.foundation.table_address import TableAddress
from framework.run.flows.state.application import application_id
from framework.sources.delta.history import CommitHistory
from framework.sources.delta.log import LogTip

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rewind_application(flow: QualifiedName) -> str:
    """Return the `txnAppId` of a flow's rewinds; its `txnVersion` is the generation with which the flow continues."""
    return f"sluice:rewind:{flow}"


def restart_application(flow: QualifiedName) -> str:
    """Return the `txnAppId` of an appending flow that began again; its `txnVersion` is the flow's generation."""
    return f"sluice:generation:{flow}"


def is_older_than_rewind(storage: Storage, dataset: QualifiedName, flow: QualifiedName, tip: LogTip | None) -> bool:
    """Whether a table was rewound, but this storage lacks the checkpoint that belongs to it since."""
    rewound = _named_in(tip, rewind_application(flow))
    return rewound > 0 and rewound > _begun(storage, dataset, flow)


def names_rewind(flow: QualifiedName, generation: int, tip: LogTip | None) -> bool:
    """Whether a table names a rewind's generation, or a later one, for a flow."""
    return _named_in(tip, rewind_application(flow)) >= generation


def is_older_than_restart(
    storage: Storage, pipeline: str, dataset: QualifiedName, flow: QualifiedName, tip: LogTip | None
) -> bool:
    """Whether an appending flow's table has a generation that this storage lacks.

    A stream commits the number of each generation that begins again; a single batch run has it in its transaction.
    """
    numbers = (_named_in(tip, restart_application(flow)), *_batch_numbers(pipeline, flow, _taken(tip)))
    restarted = max(numbers)
    return restarted > 0 and restarted > _begun(storage, dataset, flow)


def _begun(storage: Storage, dataset: QualifiedName, flow: QualifiedName) -> int:
    """Return the highest number of a begun generation; a folder alone may be an unfinished copy of a rewind."""
    return GenerationStore(storage).manifest(dataset, flow).last_number


def name_generation(session: SparkSession, path: str, application: str, generation: int) -> None:
    """Commit a generation number to a table, as a transaction without rows. Idempotent."""
    address = TableAddress(path=path)
    if can_open(address):
        with active_session(session):
            TableVersion(session, address).commit_without_rows(application, generation)
        return
    nothing = session.read.format("delta").load(path).limit(0)
    writer = nothing.write.format("delta").mode("append").option("txnVersion", generation)
    writer.option("txnAppId", application).save(path)


def latest_number(
    storage: Storage,
    pipeline: str,
    dataset: QualifiedName,
    flow: QualifiedName,
    *,
    path: str | None,
    tip: LogTip | None,
) -> int:
    """Return the highest generation number that a flow ever had, because a table skips batches that it already has.

    Args:
        storage: the pipeline's storage.
        pipeline: its name.
        dataset: the target.
        flow: the flow's full name.
        path: the folder of an AUTO CDC table; None for any other target.
        tip: the end of the log of a table.
    """
    latest = GenerationStore(storage).latest_number(dataset, flow)
    taken = _taken(tip)
    if not latest and path is not None:  # manifest and checkpoint were deleted by hand
        history = CommitHistory(storage, path)
        taken |= {name for version in history.versions for name in history.commit(version).batches}
    named = (_named_in(tip, name(flow)) for name in (rewind_application, restart_application))
    return max([latest, *named, *_batch_numbers(pipeline, flow, taken)])


def _taken(tip: LogTip | None) -> set[str]:
    return set() if tip is None else set(tip.transactions)


def _batch_numbers(pipeline: str, flow: QualifiedName, taken: Iterable[str]) -> list[int]:
    """Return the generations of a flow whose batches are among a table's applications."""
    prefix = application_id(pipeline, flow, 0).removesuffix("0")
    numbers = (name.removeprefix(prefix) for name in taken if name.startswith(prefix))
    return [int(number) for number in numbers if number.isdecimal()]


def _named_in(tip: LogTip | None, application: str) -> int:
    return 0 if tip is None else tip.transactions.get(application, (0, 0))[0]
