"""The store of generations: the checkpoints of each flow, and which one is current."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from framework.checkpoints.manifest import BY_LOSS, Generation, GenerationState, Manifest, parse_manifest
from framework.checkpoints.offsets import CheckpointProgress, read_progress
from framework.foundation.clock import Clock, SystemClock, timestamp_text
from framework.foundation.failpoints import failpoint
from framework.foundation.files.storage_port import Storage
from framework.foundation.names import QualifiedName

__all__ = ["Generation", "GenerationState", "GenerationStore", "Manifest"]


class GenerationStore:
    """Reads and changes the manifests; each change is one atomic replacement of one file.

    A crash can separate two durable effects in only three places:

    - The manifest records a new generation, and Spark fills its folder later. After a crash in
      between, the generation has no progress, like any new generation.
    - `abandon` (and `begin` of a second rebuild) removes a building generation from the manifest
      and then deletes its folder. After a crash in between, no manifest refers to the folder, and
      its number is never assigned again. The reverse order could leave a generation that lost its
      progress and would write its rows a second time into the rebuild.
    - A generation's stream writes to its table, and `complete` or `promote` follows. Both are
      idempotent, so the caller detects the write in the table's own commits
      (`delta_log.last_user_metadata`, Delta's transaction identifiers) and calls them again.

    Args:
        storage: the pipeline's storage.
        clock: the source of `begun_at`.
    """

    def __init__(self, storage: Storage, clock: Clock | None = None) -> None:
        self._storage = storage
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()

    def read(self, dataset: QualifiedName, flow: QualifiedName) -> tuple[Generation, ...]:
        """Return all generations of a flow, oldest first; () before its first run."""
        return self.manifest(dataset, flow).generations

    def manifest(self, dataset: QualifiedName, flow: QualifiedName) -> Manifest:
        """Return the flow's manifest; an empty one before its first run.

        Raises:
            OperationError: CHECKPOINT_MANIFEST_DAMAGED.
        """
        path = manifest_path(self._storage, dataset, flow)
        text = self._storage.read_text(path)
        return Manifest(dataset=dataset, flow=flow) if text is None else parse_manifest(text, path)

    def current(self, dataset: QualifiedName, flow: QualifiedName) -> Generation | None:
        """Return the generation that the next update continues."""
        return self.manifest(dataset, flow).in_state(GenerationState.CURRENT)

    def building(self, dataset: QualifiedName, flow: QualifiedName) -> Generation | None:
        """Return the generation of an unfinished rebuild."""
        return self.manifest(dataset, flow).in_state(GenerationState.BUILDING)

    def latest_number(self, dataset: QualifiedName, flow: QualifiedName) -> int:
        """Return the highest number ever assigned to a generation of the flow; 0 before the first."""
        # Folders count too: if the manifest is lost, a flow must not start in an old checkpoint.
        folders = self._storage.list_names(flow_folder(self._storage, dataset, flow))
        highest = max((int(name) for name in folders if name.isdecimal()), default=0)
        return max(self.manifest(dataset, flow).last_number, highest)

    def begin(
        self,
        dataset: QualifiedName,
        flow: QualifiedName,
        *,
        reason: str,
        start: str | None = None,
        staged: bool = False,
        fingerprint: str = "",
        number: int | None = None,
    ) -> Generation:
        """Begin a new generation: the current one or, with `staged`, the generation of a rebuild.

        A new current generation keeps the previous one. A second staged generation replaces the
        first, whose checkpoint is deleted.

        Args:
            dataset: the target of the flow.
            flow: the flow's full name.
            reason: why it begins, as text for users.
            start: the position its sources start at; None: the flow's own.
            staged: whether it belongs to a rebuild and becomes current only by `promote`.
            fingerprint: identifies its purpose, as free text.
            number: its number, above `latest_number`; None for the next number.

        Raises:
            InternalError: GENERATION_MISUSED if the number was assigned before.
        """
        with self._lock:
            before = self.manifest(dataset, flow)
            latest = self.latest_number(dataset, flow)
            generation = Generation(
                number=latest + 1 if number is None else number,
                begun_at=self._now,
                reason=reason,
                start=start,
                state=GenerationState.BUILDING if staged else GenerationState.CURRENT,
                fingerprint=fingerprint,
                current_since=None if staged else self._since(before),
            )
            self._write(before.begin(generation, after=latest))
            replaced = before.in_state(GenerationState.BUILDING)
            if staged and replaced is not None:
                failpoint("generations.before_delete")
                self._storage.delete_tree(self.path(dataset, flow, replaced.number))
            return generation

    def complete(self, dataset: QualifiedName, flow: QualifiedName, number: int) -> None:
        """Mark a once flow's generation as completed. Idempotent."""
        self._change(dataset, flow, lambda manifest: manifest.update(number, completed=True))

    def started(
        self,
        dataset: QualifiedName,
        flow: QualifiedName,
        number: int,
        query: str,
        *,
        sources: tuple[str, ...] = (),
        owner: str = "",
    ) -> None:
        """Store the stream id of a generation, its sources, and the owner of its sink. Idempotent.

        Sources are not stored if their number differs from an earlier start, because they may be in another order. See
        `confirm_sources`.
        """

        def begun(found: Manifest) -> Manifest:
            known = found.find(number)
            is_unsure = known is not None and bool(known.query) and len(known.sources) != len(sources)
            changed = found.update(number, query=query, sources=None if is_unsure else sources)
            return replace(changed, owner=owner or found.owner)

        self._change(dataset, flow, begun)

    def confirm_sources(
        self, dataset: QualifiedName, flow: QualifiedName, number: int, sources: tuple[str, ...]
    ) -> None:
        """Store the sources of a committed batch; Delta and Kafka reject offsets of reordered sources. Idempotent."""
        self._change(dataset, flow, lambda found: found.update(number, sources=sources))

    def promote(self, dataset: QualifiedName, flow: QualifiedName, number: int) -> None:
        """Make a building generation the current one and keep the previous one. Idempotent."""
        batch = read_progress(self._storage, self.path(dataset, flow, number)).last_commit_batch
        self._change(
            dataset,
            flow,
            lambda manifest: manifest.make_current(
                number, allowed=GenerationState.BUILDING, since=self._since(manifest), after_batch=batch
            ),
        )

    def adopt(
        self,
        dataset: QualifiedName,
        flow: QualifiedName,
        number: int,
        *,
        reason: str,
        start: str | None,
        after_batch: int | None,
        rewound_to: int = 0,
        completed: bool = False,
    ) -> None:
        """Begin the generation of a rewind, whose checkpoint is already complete, as the current one. Idempotent.

        Args:
            dataset: the target of the flow.
            flow: the flow's full name.
            number: its number, used by no other generation, and the name of its folder.
            reason: why it begins, as text for users.
            start: the position its sources started at; None: the flow's own.
            after_batch: the last batch in its checkpoint; None if the checkpoint is empty.
            rewound_to: the number of the generation that it continues; 0 for none.
            completed: whether a once flow had written all its data in that generation.
        """

        def adopted(manifest: Manifest) -> Manifest:
            if manifest.find(number) is not None:
                return manifest
            continued = manifest.find(rewound_to)
            generation = Generation(
                number=number,
                begun_at=self._now,
                reason=reason,
                start=start,
                current_since=self._since(manifest),
                after_batch=after_batch,
                rewound_to=rewound_to,
                completed=completed,
                sources=() if continued is None else continued.sources,
            )
            return manifest.begin(generation, after=manifest.last_number, undoes=True)

        self._change(dataset, flow, adopted)

    def restore(self, dataset: QualifiedName, flow: QualifiedName, number: int) -> None:
        """Roll back: make a kept generation that is not undone current again, and keep the previous one."""

        def restored(manifest: Manifest) -> Manifest:
            chosen, wrote = manifest.find(number), None
            committed = read_progress(self._storage, self.path(dataset, flow, number)).last_commit_batch
            if chosen is not None:
                wrote = last_written(self._storage, manifest, chosen)
                committed = -1 if committed is None and chosen.completed else committed
            since = self._since(manifest)
            return manifest.restore(number, since=since, restored_after=committed, wrote_before=wrote)

        self._change(dataset, flow, restored)

    def retire(self, dataset: QualifiedName, flow: QualifiedName, why: str) -> None:
        """Leave a flow without a current generation: its rows have left the table, and its next run is its first.

        Args:
            dataset: the target of the flow.
            flow: the flow's full name.
            why: `BY_REFRESH` for a full refresh without the flow, `BY_LOSS` for a deleted table.
        """
        self._change(dataset, flow, lambda manifest: manifest.retire(why))

    def retire_lost(self, dataset: QualifiedName, *, besides: str = "") -> None:
        """Retire all flows of a deleted table, including held and undeclared flows.

        Their checkpoints are retired before the table exists again. Otherwise, after a crash in between, a flow would
        continue behind rows that the table no longer has.

        Args:
            dataset: the table.
            besides: the fingerprint of the generations that continue in the next publication; empty for none.
        """
        for manifest in self.list_of(dataset):
            current = manifest.in_state(GenerationState.CURRENT)
            if not besides or current is None or current.fingerprint != besides:
                self.retire(dataset, manifest.flow, BY_LOSS)
        failpoint("tables.before_create")

    def abandon(self, dataset: QualifiedName, flow: QualifiedName, number: int) -> None:
        """Remove a building generation and delete its checkpoint. Idempotent."""
        self._change(dataset, flow, lambda manifest: manifest.without(number))
        failpoint("generations.before_delete")
        self._storage.delete_tree(self.path(dataset, flow, number))

    def path(self, dataset: QualifiedName, flow: QualifiedName, number: int) -> str:
        """Return the checkpoint location of one generation."""
        return checkpoint_path(self._storage, dataset, flow, number)

    def list_all(self) -> tuple[Manifest, ...]:
        """Return the manifests of all flows that ever ran, sorted by name; undeclared flows are included."""
        root = datasets_folder(self._storage)
        folders = [(a, b) for a in self._storage.list_names(root) for b in self._storage.list_names(f"{root}/{a}")]
        found = []
        for dataset, flow in folders:
            path = f"{root}/{dataset}/{flow}/{MANIFEST}"
            text = self._storage.read_text(path)
            if text is not None:
                found.append(parse_manifest(text, path))
        return tuple(sorted(found, key=lambda manifest: (manifest.dataset, manifest.flow)))

    def list_of(self, dataset: QualifiedName) -> tuple[Manifest, ...]:
        """Return the manifests of all flows that ever wrote to a dataset, sorted by name."""
        folder = dataset_folder(self._storage, dataset)
        found = []
        for flow in self._storage.list_names(folder):
            path = f"{folder}/{flow}/{MANIFEST}"
            text = self._storage.read_text(path)
            if text is not None:
                found.append(parse_manifest(text, path))
        return tuple(sorted(found, key=lambda manifest: manifest.flow))

    @property
    def _now(self) -> str:
        return timestamp_text(self._clock.now())

    def _since(self, manifest: Manifest) -> str:
        """Return the time at which a generation becomes current: the present, but later than all earlier such times.

        The clock may have been set back, and the order of these times decides which generations read the same rows.
        """
        now, last = self._now, max((each.current_since or "" for each in manifest.generations), default="")
        if now > last:
            return now
        return timestamp_text(datetime.fromisoformat(last) + timedelta(milliseconds=1))

    def _change(self, dataset: QualifiedName, flow: QualifiedName, change: Callable[[Manifest], Manifest]) -> None:
        with self._lock:
            before = self.manifest(dataset, flow)
            after = change(before)
            if after != before:
                self._write(after)

    def _write(self, manifest: Manifest) -> None:
        self._storage.write_text(manifest_path(self._storage, manifest.dataset, manifest.flow), manifest.to_json())


MayHave = Callable[[str, int], bool]
"""Whether a target may have a batch of a query, by the query's id, with a number above the given one."""


def may_have_any(_query: str, _after: int) -> bool:
    """Return True: without further knowledge, a target may have any batch."""
    return True


MANIFEST = "manifest.json"
_ROOT = "checkpoints"
_LONGEST = 200
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


def folder_name(name: QualifiedName) -> str:
    """Return a folder name that is valid on every file system and unique for each name.

    Letters, digits, `_` and `-` stay. Other characters become `~` and their bytes in hex, because
    `%` and `:` have a special meaning in Hadoop paths. Very long names end in a digest.

    Examples:
        >>> folder_name(QualifiedName(catalog="main", schema="sales", table="größe.2"))
        'main.sales.gr~c3b6~c39fe~2e2'
    """
    text = ".".join(_UNSAFE.sub(_escape, part) for part in (name.catalog, name.schema, name.table))
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}~~{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def datasets_folder(storage: Storage) -> str:
    """Return the folder that has one subfolder for each dataset with a checkpoint."""
    return storage.path(_ROOT)


def dataset_folder(storage: Storage, dataset: QualifiedName) -> str:
    """Return the folder with the checkpoints of all flows into one dataset."""
    return storage.path(_ROOT, folder_name(dataset))


def flow_folder(storage: Storage, dataset: QualifiedName, flow: QualifiedName) -> str:
    """Return the folder with the manifest and all generations of one flow."""
    return storage.path(_ROOT, folder_name(dataset), folder_name(flow))


def manifest_path(storage: Storage, dataset: QualifiedName, flow: QualifiedName) -> str:
    """Return the path of a flow's manifest."""
    return storage.path(_ROOT, folder_name(dataset), folder_name(flow), MANIFEST)


def checkpoint_path(storage: Storage, dataset: QualifiedName, flow: QualifiedName, number: int) -> str:
    """Return the `checkpointLocation` of one generation of a flow."""
    return storage.path(_ROOT, folder_name(dataset), folder_name(flow), str(number))


def last_written(
    storage: Storage, manifest: Manifest, generation: Generation, may_have: MayHave = may_have_any
) -> str | None:
    """Return the `current_since` of the last period in which a generation may have written rows; None if it never has.

    Args:
        storage: the pipeline's storage.
        manifest: the flow's manifest.
        generation: one generation in the manifest.
        may_have: whether the target may have a planned batch that is not committed.
    """
    progress = read_progress(storage, checkpoint_path(storage, manifest.dataset, manifest.flow, generation.number))
    committed = -1 if progress.last_commit_batch is None else progress.last_commit_batch
    planned = -1 if progress.last_offset_batch is None else progress.last_offset_batch
    before = -1 if generation.restored_after is None else generation.restored_after
    has_written = committed > before
    if planned > committed:
        has_written |= progress.query_id is None or may_have(progress.query_id, committed)
    if generation.completed and generation.restored_after is None:  # a batch query has no micro-batches
        has_written = True
    return generation.current_since or "" if has_written else generation.wrote_before


def is_building(storage: Storage, checkpoint: str) -> bool:
    """Whether a checkpoint belongs to an unpublished rebuild, so that it may be discarded."""
    folder, _, number = checkpoint.rpartition("/")
    path = f"{folder}/{MANIFEST}"
    text = storage.read_text(path) if number.isdecimal() else None
    found = None if text is None else parse_manifest(text, path).find(int(number))
    return found is not None and found.state is GenerationState.BUILDING


def _escape(match: re.Match[str]) -> str:
    return f"~{match.group().encode('utf-8').hex()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointOverview:
    """One generation of a flow, with the path and progress of its checkpoint."""

    dataset: QualifiedName
    flow: QualifiedName
    generation: Generation
    path: str
    progress: CheckpointProgress


def list_checkpoints(storage: Storage) -> tuple[CheckpointOverview, ...]:
    """Return all generations of all flows, sorted by dataset, flow and number."""
    store = GenerationStore(storage)
    found = []
    for manifest in store.list_all():
        for generation in manifest.generations:
            path = store.path(manifest.dataset, manifest.flow, generation.number)
            found.append(
                CheckpointOverview(
                    dataset=manifest.dataset,
                    flow=manifest.flow,
                    generation=generation,
                    path=path,
                    progress=read_progress(storage, path),
                )
            )
    return tuple(found)
