"""The pipelines below the served folders, found by their specs; no module of a pipeline is loaded."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from framework.declare.pipeline_spec import SPEC_NAMES, PipelineSpec, load_spec
from framework.foundation.errors import SluiceError, UserError
from framework.foundation.files.storage import LocalStorage, Storage, is_local
from framework.server.values import Fault

_DEEPEST = 6
_MOST_FOLDERS = 20_000
# Folders in which nobody keeps a spec, and which may have many files.
_SKIPPED = frozenset({"node_modules", "__pycache__", "spark-warehouse", "tables", "checkpoints", "site-packages"})
_IDS = uuid.UUID("6f1c7a52-0d38-5b63-9f0e-6c1e5a3b7d10")


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineEntry:
    """A pipeline that the server knows.

    Args:
        pipeline_id: a UUID of the name and the storage, as the events' own id of the pipeline.
        spec_file: its spec.
        storage: its storage.
        gone: why nothing of it can be started, although an update of it runs; None for a pipeline with a spec.
    """

    pipeline_id: str
    name: str
    spec_file: Path
    spec: PipelineSpec
    storage: Storage
    gone: Fault | None = None

    @property
    def place(self) -> str:
        """The real path of its storage, which several spellings and links may lead to."""
        return os.path.realpath(self.storage.root)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The pipelines below folders, by name, and the specs that can't be used."""

    entries: tuple[PipelineEntry, ...] = ()
    faults: tuple[Fault, ...] = ()


def pipeline_id_of(name: str, root: str) -> str:
    """Return the id of a pipeline in answers: a UUID, because the id in its events has characters of a path."""
    return str(uuid.uuid5(_IDS, f"{name}@{root}"))


def find_pipelines(folders: Sequence[Path], entry_at: Callable[[Path], PipelineEntry | Fault] | None = None) -> Found:
    """Return the pipelines of all specs below some folders; a spec that is found twice counts once.

    Args:
        folders: the folders.
        entry_at: returns the pipeline of a spec, such as one that is already known.
    """
    loaded = entry_at or entry_of
    entries: dict[tuple[str, str], PipelineEntry] = {}
    faults: list[Fault] = []
    for file in dict.fromkeys(each for folder in folders for each in _specs(folder.resolve())):
        try:
            entry = loaded(file)
        except SluiceError as error:
            faults.append(Fault(condition=error.condition, what=_texts(error), remedy=error.remedy, file=str(file)))
            continue
        if isinstance(entry, Fault):
            faults.append(entry)
            continue
        # One storage can't hold two pipelines of one name: their updates could not be told apart.
        first = entries.setdefault((entry.name, entry.place), entry)
        if first is not entry:
            faults.append(_twice(entry, first))
    return Found(entries=tuple(sorted(entries.values(), key=lambda each: each.name)), faults=tuple(faults))


def entry_of(file: Path) -> PipelineEntry | Fault:
    """Return the pipeline of a spec; a fault if its storage can't be read without Spark.

    Raises:
        UserError: the spec is missing or invalid.
    """
    spec = load_spec(file)
    if not is_local(spec.storage):
        error = UserError("SERVE_STORAGE_REMOTE", pipeline=spec.name, storage=spec.storage)
        return Fault(condition=error.condition, what=error.what, remedy=error.remedy, file=str(file))
    storage = LocalStorage(spec.storage)
    return PipelineEntry(
        pipeline_id=pipeline_id_of(spec.name, storage.root), name=spec.name, spec_file=file, spec=spec, storage=storage
    )


def _twice(entry: PipelineEntry, first: PipelineEntry) -> Fault:
    error = UserError("SERVE_PIPELINE_TWICE", pipeline=entry.name, storage=first.place, spec=first.spec_file)
    return Fault(condition=error.condition, what=error.what, remedy=error.remedy, file=str(entry.spec_file))


def _specs(folder: Path) -> Iterator[Path]:
    """Yield the specs below a folder; of several specs in one folder, the one that commands use."""
    for count, (place, names, files) in enumerate(os.walk(folder)):
        depth = len(Path(place).relative_to(folder).parts)
        names[:] = sorted(each for each in names if not each.startswith(".") and each not in _SKIPPED)
        if depth >= _DEEPEST or count >= _MOST_FOLDERS:
            names.clear()
        spec = next((name for name in SPEC_NAMES if name in files), None)
        if spec is not None:
            yield Path(place) / spec


def _texts(error: SluiceError) -> str:
    """Return the problems of an error, without the condition that is a field of its own."""
    return error.render().removeprefix(f"[{error.condition}] ")
