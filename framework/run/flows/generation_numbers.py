"""The numbers of a flow's generations, in its manifest and in the transactions of its table.

A table with a `path` outside of the storage stays as it is when an older backup of the storage is put back. Then it has
batches, and marks of rewinds, of generations that the manifest does not have.
"""

from __future__ import annotations

from framework.checkpoints.generations import GenerationStore
from framework.foundation.names import QualifiedName
from framework.foundation.storage_port import Storage
from framework.run.flows.application import application_id
from framework.sources.delta.history import CommitHistory
from framework.sources.delta.log import LogTip


def rewind_application(flow: QualifiedName) -> str:
    """Return the `txnAppId` of a flow's rewinds; their `txnVersion` is the generation that the flow continues in."""
    return f"sluice:rewind:{flow}"


def is_older_than_rewind(storage: Storage, dataset: QualifiedName, flow: QualifiedName, tip: LogTip | None) -> bool:
    """Whether a table was rewound, and the checkpoint that belongs to it since is not in this storage."""
    rewound = _rewound_in(flow, tip)
    return rewound > 0 and rewound > GenerationStore(storage).latest_number(dataset, flow)


def latest_number(
    storage: Storage, pipeline: str, dataset: QualifiedName, flow: QualifiedName, *, path: str | None,
    tip: LogTip | None,
) -> int:  # fmt: skip
    """Return the highest number that a generation of a flow ever had: a table skips the batches that it has.

    Args:
        storage: the pipeline's storage.
        pipeline: its name.
        dataset: the target.
        flow: the flow's full name.
        path: the folder of a table of AUTO CDC; None for any other target.
        tip: the end of the log of a table.
    """
    latest = GenerationStore(storage).latest_number(dataset, flow)
    taken = set() if tip is None else set(tip.transactions)
    if not latest and path is not None:  # manifest and checkpoint were deleted by hand
        history = CommitHistory(storage, path)
        taken |= {name for version in history.versions for name in history.commit(version).batches}
    prefix = application_id(pipeline, flow, 0).removesuffix("0")
    numbers = (name.removeprefix(prefix) for name in taken if name.startswith(prefix))
    return max([latest, _rewound_in(flow, tip), *(int(number) for number in numbers if number.isdecimal())])


def _rewound_in(flow: QualifiedName, tip: LogTip | None) -> int:
    return 0 if tip is None else tip.transactions.get(rewind_application(flow), (0, 0))[0]
