"""Pipelines without a spec whose updates still run or wait: it was deleted or renamed, or has another storage now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from framework.declare.pipeline_spec import PipelineSpec, load_spec
from framework.foundation.errors import SluiceError, UserError
from framework.foundation.files.local_storage import LocalStorage
from framework.run.update.control.lock_holder import lock_holder
from framework.server.engines.outcomes import owner_of
from framework.server.engines.run_records import RunRecord, RunRecords
from framework.server.pipelines import Found, PipelineEntry, pipeline_id_of
from framework.server.values import Fault, fault_of

_DEFAULT = ".sluice"
"""The folder beside a spec that has the storages of pipelines which name none."""
_MOST_STORAGES = 200


class Leftovers:
    """The pipelines that have no spec any more, and an update that runs or waits.

    Their updates are shown and can be stopped, under their own name, and nothing of them is started: the spec that is
    there now is that of another pipeline. They are found in the storages of all pipelines, in those that were known,
    and in the default storages beside each spec, so that a server that starts later finds them too.
    """

    def __init__(self) -> None:
        self._open: dict[str, tuple[str, tuple[RunRecord, ...]]] = {}

    def find(self, found: Found, before: Iterable[PipelineEntry]) -> tuple[PipelineEntry, ...]:
        """Return the pipelines that have only an update left.

        Args:
            found: the pipelines and faults below the served folders.
            before: the pipelines that were known.
        """
        served = {(each.name, each.place) for each in found.entries}
        known = {(each.name, each.place): each for each in before}
        roots = {each.place: (each.storage.root, each.spec_file) for each in (*found.entries, *known.values())}
        for file in dict.fromkeys([*(each.spec_file for each in found.entries), *_files(found.faults)]):
            for folder in _beside(file):
                roots.setdefault(str(folder.resolve()), (str(folder), file))
        self._open = {place: opened for place, opened in self._open.items() if place in roots}
        kept = []
        for place, (root, file) in roots.items():
            storage = LocalStorage(root)
            for name, update_id in self._open_in(place, storage):
                if (name, place) not in served:
                    served.add((name, place))
                    kept.append(_left(known.get((name, place)), name, storage, file, update_id))
        return tuple(kept)

    def _open_in(self, place: str, storage: LocalStorage) -> Iterator[tuple[str, str]]:
        """Yield the names of pipelines with an update that runs or waits, with that update."""
        records = RunRecords(storage)
        try:
            token, known = records.token, self._open.get(place)
            if known is None or known[0] != token:
                known = self._open[place] = (token, tuple(each for each in records.list_all() if each.is_open))
            holder = lock_holder(storage)
            owner = None if holder is None else owner_of(storage, records, holder.update_id)
        except SluiceError:
            return  # its own pipeline says why it can't be read
        yield from ((each.pipeline, each.update_id) for each in known[1])
        if holder is not None and owner is not None:
            yield owner, holder.update_id


def check_started(entry: PipelineEntry, update_id: str) -> None:
    """Check that a pipeline's spec still is its own: a spec that was changed now would start another pipeline.

    Raises:
        UserError: SERVE_SPEC_GONE.
    """
    try:
        spec = load_spec(entry.spec_file)
    except SluiceError:
        spec = entry.spec  # its engine says what is wrong with it
    if entry.gone is not None or (spec.name, spec.storage) != (entry.name, entry.spec.storage):
        raise UserError("SERVE_SPEC_GONE", pipeline=entry.name, update=update_id, spec=entry.spec_file)


def _left(
    known: PipelineEntry | None, name: str, storage: LocalStorage, file: Path, update_id: str
) -> PipelineEntry:  # fmt: skip
    if known is not None and known.gone is not None:
        return known
    if known is not None:
        file, storage = known.spec_file, LocalStorage(known.storage.root)
    fault: Fault = fault_of(UserError("SERVE_SPEC_GONE", pipeline=name, update=update_id, spec=file))
    # Without a file and times: what is beside the spec now, such as schedules, is for another pipeline.
    spec = PipelineSpec(name=name, storage=storage.root) if known is None else known.spec
    return PipelineEntry(
        pipeline_id=pipeline_id_of(name, storage.root), name=name, spec_file=file, storage=storage,
        spec=replace(spec, file=None, trigger=None), gone=fault,
    )  # fmt: skip


def _files(faults: Iterable[Fault]) -> Iterator[Path]:
    return (Path(each.file) for each in faults if each.file)


def _beside(file: Path) -> list[Path]:
    try:
        return sorted(each for each in (file.parent / _DEFAULT).iterdir() if each.is_dir())[:_MOST_STORAGES]
    except OSError:
        return []
