"""The store of generations: what each flow's checkpoints are, and which one holds now."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable

from framework.checkpoints.manifest import Generation, GenerationState, Manifest, parse_manifest
from framework.foundation.clock import Clock, SystemClock, timestamp_text
from framework.foundation.failpoints import failpoint
from framework.foundation.names import QualifiedName
from framework.foundation.storage_port import Storage

__all__ = ["Generation", "GenerationState", "GenerationStore", "Manifest"]


class GenerationStore:
    """Reads and changes the manifests; each change is one atomic replacement of one file.

    Two durable effects meet here in three places only:

    - A manifest says that a generation began, and Spark fills its folder later. Stopped between:
      a generation without progress, which is what a new one is.
    - `abandon` (and `begin` of a second rebuild) takes a building generation out of its manifest
      first and deletes its folder then. Stopped between: a folder that no manifest names, whose
      number is never given out again. The other order could leave a generation that lost its
      progress and would write its rows a second time into the rebuild.
    - Whatever a generation's stream wrote to its table, and `complete` or `promote` after it:
      these marks may be set again, so the caller finds out from the table's own commits
      (`delta_log.last_user_metadata`, Delta's transaction identifiers) and sets them then.

    Args:
        storage: the pipeline's storage.
        clock: what `begun_at` is read from.
    """

    def __init__(self, storage: Storage, clock: Clock | None = None) -> None:
        self._storage = storage
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()

    def read(self, dataset: QualifiedName, flow: QualifiedName) -> tuple[Generation, ...]:
        """All generations of a flow, oldest first; () before its first run."""
        return self.manifest(dataset, flow).generations

    def manifest(self, dataset: QualifiedName, flow: QualifiedName) -> Manifest:
        """The flow's generations with the questions one asks of them; an empty one before its first run.

        Raises:
            OperationError: CHECKPOINT_MANIFEST_DAMAGED.
        """
        path = manifest_path(self._storage, dataset, flow)
        text = self._storage.read_text(path)
        return Manifest(dataset=dataset, flow=flow) if text is None else parse_manifest(text, path)

    def current(self, dataset: QualifiedName, flow: QualifiedName) -> Generation | None:
        """The generation that the next update goes on with."""
        return self.manifest(dataset, flow).in_state(GenerationState.CURRENT)

    def building(self, dataset: QualifiedName, flow: QualifiedName) -> Generation | None:
        """The generation of an unfinished rebuild."""
        return self.manifest(dataset, flow).in_state(GenerationState.BUILDING)

    def latest_number(self, dataset: QualifiedName, flow: QualifiedName) -> int:
        """The highest number that was ever given to a generation of the flow; 0 before its first."""
        # Folders count too: without its manifest a flow must not begin in an old checkpoint.
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
        """Begin a new generation: as the current one, keeping the old; or (`staged`) beside it.

        A second staged one takes the place of the first, which is abandoned.

        Args:
            dataset: the target of the flow.
            flow: the flow's full name.
            reason: why it begins, for people.
            start: the position its sources start at; None is the flow's own.
            staged: it belongs to a rebuild, and serves only after `promote`.
            fingerprint: what the flow's code looks like.
            number: its number, above `latest_number`; None takes the next one.

        Raises:
            InternalError: GENERATION_MISUSED when the number was given out before.
        """
        with self._lock:
            before = self.manifest(dataset, flow)
            now = timestamp_text(self._clock.now())
            latest = self.latest_number(dataset, flow)
            generation = Generation(
                number=latest + 1 if number is None else number,
                begun_at=now,
                reason=reason,
                start=start,
                state=GenerationState.BUILDING if staged else GenerationState.CURRENT,
                fingerprint=fingerprint,
                current_since=None if staged else now,
            )
            self._write(before.begin(generation, after=latest))
            replaced = before.in_state(GenerationState.BUILDING)
            if staged and replaced is not None:
                failpoint("generations.before_delete")
                self._storage.delete_tree(self.path(dataset, flow, replaced.number))
            return generation

    def complete(self, dataset: QualifiedName, flow: QualifiedName, number: int) -> None:
        """Mark that a once flow's data is in; again is the same."""
        self._change(dataset, flow, lambda manifest: manifest.update(number, completed=True))

    def stamp(self, dataset: QualifiedName, flow: QualifiedName, number: int, fingerprint: str) -> None:
        """Note what the flow's code looked like when this generation was last written by it."""
        self._change(dataset, flow, lambda manifest: manifest.update(number, fingerprint=fingerprint))

    def promote(self, dataset: QualifiedName, flow: QualifiedName, number: int) -> None:
        """Make a building generation the current one and keep the former; again is the same."""
        now = timestamp_text(self._clock.now())
        self._change(
            dataset, flow, lambda manifest: manifest.make_current(number, allowed=GenerationState.BUILDING, since=now)
        )

    def restore(self, dataset: QualifiedName, flow: QualifiedName, number: int) -> None:
        """Roll back: make a kept generation the current one again and keep the former."""
        now = timestamp_text(self._clock.now())
        self._change(
            dataset, flow, lambda manifest: manifest.make_current(number, allowed=GenerationState.KEPT, since=now)
        )

    def abandon(self, dataset: QualifiedName, flow: QualifiedName, number: int) -> None:
        """Give up a building generation and delete its checkpoint; again is the same."""
        self._change(dataset, flow, lambda manifest: manifest.without(number))
        failpoint("generations.before_delete")
        self._storage.delete_tree(self.path(dataset, flow, number))

    def path(self, dataset: QualifiedName, flow: QualifiedName, number: int) -> str:
        """The checkpoint location of one generation."""
        return checkpoint_path(self._storage, dataset, flow, number)

    def list_all(self) -> tuple[Manifest, ...]:
        """The manifests of all flows that ever ran, those no longer declared too, by name."""
        root = datasets_folder(self._storage)
        folders = [(a, b) for a in self._storage.list_names(root) for b in self._storage.list_names(f"{root}/{a}")]
        found = []
        for dataset, flow in folders:
            path = f"{root}/{dataset}/{flow}/{MANIFEST}"
            text = self._storage.read_text(path)
            if text is not None:
                found.append(parse_manifest(text, path))
        return tuple(sorted(found, key=lambda manifest: (manifest.dataset, manifest.flow)))

    def _change(self, dataset: QualifiedName, flow: QualifiedName, change: Callable[[Manifest], Manifest]) -> None:
        with self._lock:
            before = self.manifest(dataset, flow)
            after = change(before)
            if after != before:
                self._write(after)

    def _write(self, manifest: Manifest) -> None:
        self._storage.write_text(manifest_path(self._storage, manifest.dataset, manifest.flow), manifest.to_json())


MANIFEST = "manifest.json"
_ROOT = "checkpoints"
_LONGEST = 200
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


def folder_name(name: QualifiedName) -> str:
    """A folder name that is safe on every file system, and another one for every other name.

    Letters, digits, `_` and `-` stay; other characters become `~` and their bytes in hex, as `%`
    and `:` have meanings of their own in Hadoop's paths. Very long names end in a digest.

    Examples:
        >>> folder_name(QualifiedName(catalog="main", schema="sales", table="größe.2"))
        'main.sales.gr~c3b6~c39fe~2e2'
    """
    text = ".".join(_UNSAFE.sub(_escape, part) for part in (name.catalog, name.schema, name.table))
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}~~{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def datasets_folder(storage: Storage) -> str:
    """The folder with one folder per dataset that has a checkpoint."""
    return storage.path(_ROOT)


def dataset_folder(storage: Storage, dataset: QualifiedName) -> str:
    """The folder with the checkpoints of all flows into one dataset."""
    return storage.path(_ROOT, folder_name(dataset))


def flow_folder(storage: Storage, dataset: QualifiedName, flow: QualifiedName) -> str:
    """The folder with the manifest and all generations of one flow."""
    return storage.path(_ROOT, folder_name(dataset), folder_name(flow))


def manifest_path(storage: Storage, dataset: QualifiedName, flow: QualifiedName) -> str:
    """The file that says why each generation began and what state it is in."""
    return storage.path(_ROOT, folder_name(dataset), folder_name(flow), MANIFEST)


def checkpoint_path(storage: Storage, dataset: QualifiedName, flow: QualifiedName, number: int) -> str:
    """What `checkpointLocation` is for one generation of a flow."""
    return storage.path(_ROOT, folder_name(dataset), folder_name(flow), str(number))


def _escape(match: re.Match[str]) -> str:
    return f"~{match.group().encode('utf-8').hex()}"
