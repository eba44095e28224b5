"""The manifest of one flow: its generations, their allowed changes, and its JSON form."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from framework.foundation.errors import InternalError, OperationError
from framework.foundation.files.stored_format import StoredFormat
from framework.foundation.names import QualifiedName

_FORMAT = StoredFormat(1)
_NAME = re.compile(r"(.*?) \((\w+)(?:, .*)?\)", re.DOTALL)
"""A source as text; see `SourceReference`."""

BY_REWIND, BY_REFRESH, BY_LOSS = "rewind", "full refresh", "loss of the table"


class GenerationState(StrEnum):
    """The state of a generation.

    `BUILDING` belongs to an unpublished rebuild. The next update continues `CURRENT`. `KEPT` was current before and is
    kept for a roll-back.
    """

    BUILDING = "building"
    CURRENT = "current"
    KEPT = "kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One checkpoint of a flow, starting with an empty folder.

    Args:
        number: from 1, ascending; never used twice.
        begun_at: when it began, ISO 8601 in UTC.
        reason: why it began, as text for users.
        start: the position its sources start at, as text; None: the flow's own.
        rewound_to: the number of the generation that a rewind went back to, 0 for none; None if no rewind began it.
        state: the state of the generation.
        completed: whether a once flow has written all its data.
        fingerprint: identifies its purpose, as free text.
        query: the id of the stream that runs from its checkpoint, once the stream has started; empty before, and for a
            batch query. It distinguishes a deleted checkpoint from a new one.
        sources: all names of each source of the stream, in the order of its query, the present name last; empty if
            they are unknown.
        current_since: when it last became current, later than this time of any earlier generation; None if it never
            did.
        after_batch: its last batch in the table when it became current: at the publication of a full refresh, or where
            a rewind continues; None if it began without a batch.
        undone_by: why rows that it wrote have left the table, `BY_REWIND`, `BY_REFRESH` or `BY_LOSS`; a roll-back to it
            would lose these rows. Empty if all are still there.
        restored_after: its last committed batch when a roll-back last made it current again; -1 if it was complete
            without batches. None if there was no roll-back, or no committed batch.
        wrote_before: the `current_since` of the last period before that roll-back in which it may have written; None if
            it had never written.
    """

    number: int
    begun_at: str
    reason: str
    start: str | None = None
    rewound_to: int | None = None
    state: GenerationState = GenerationState.CURRENT
    completed: bool = False
    fingerprint: str = ""
    query: str = ""
    sources: tuple[tuple[str, ...], ...] = ()
    current_since: str | None = None
    after_batch: int | None = None
    undone_by: str = ""
    restored_after: int | None = None
    wrote_before: str | None = None

    @property
    def is_present(self) -> bool:
        """Whether rows that it wrote may be in the target: the generation is neither building nor undone."""
        return self.state is not GenerationState.BUILDING and not self.undone_by

    def misplaced(self, present: Sequence[str], place: Callable[[str], str] = str) -> tuple[str, str] | None:
        """Return a misplaced source and the source whose offset it would continue from; None if all sources fit.

        A checkpoint identifies the sources of a query by their positions. A new source, such as a renamed folder, may
        take the position of another source. A source that has left its position, or that is now read by another kind of
        source, is misplaced: it would continue from the offset of the source that had the position before.

        Args:
            present: the sources in the order of the present query.
            place: returns one canonical name for a source that may have several names.
        """
        if len(present) != len(self.sources):
            return None
        found = _misplaced(self.sources, present, place)
        return found or _misplaced(self.sources, present, lambda name: _place_of(place(name)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """All generations of one flow into one dataset, oldest first.

    At most one is current, and at most one is building. `last_number` is the highest number ever assigned: the number
    of an abandoned generation is not assigned again. `owner` is the pipeline that runs the flow into a sink. It is
    empty for a table, which has a record of its own, and before the first stream.
    """

    dataset: QualifiedName
    flow: QualifiedName
    generations: tuple[Generation, ...] = ()
    last_number: int = 0
    owner: str = ""

    def find(self, number: int) -> Generation | None:
        """Return the generation with this number; None if there is none."""
        return next((each for each in self.generations if each.number == number), None)

    def in_state(self, state: GenerationState) -> Generation | None:
        """Return the first generation in this state; `CURRENT` and `BUILDING` have at most one."""
        return next((each for each in self.generations if each.state is state), None)

    def begin(self, generation: Generation, *, after: int, undoes: bool = False) -> Manifest:
        """Return the manifest with a new generation, current or building, added.

        A new current generation keeps the previous one. A new building generation replaces the previous one.

        Args:
            generation: the new generation.
            after: the highest number ever assigned.
            undoes: whether a rewind begins it, so that rows of the earlier generations have left the table.
        """
        if generation.number <= max(after, self.last_number):
            raise self._misused(generation.number, "begin", "its number was already used")
        if generation.state is GenerationState.BUILDING:
            others = [each for each in self.generations if each.state is not GenerationState.BUILDING]
        else:
            others = [_kept(each) for each in self.generations]
            if undoes:
                others = [dataclasses.replace(each, undone_by=each.undone_by or BY_REWIND) for each in others]
        return dataclasses.replace(self, generations=(*others, generation), last_number=generation.number)

    def make_current(
        self, number: int, *, allowed: GenerationState, since: str, after_batch: int | None = None
    ) -> Manifest:
        """Return the manifest with this generation as current and the previous one kept.

        Args:
            number: the generation.
            allowed: the state that it must have, unless it is current already.
            since: the present time.
            after_batch: its last batch in the table; None to keep the stored value.

        Raises:
            InternalError: GENERATION_MISUSED if its state is neither current nor `allowed`.
        """
        chosen = self._require(number, "make current", {allowed, GenerationState.CURRENT})
        if chosen.state is GenerationState.CURRENT:
            return self
        batch = chosen.after_batch if after_batch is None else after_batch
        current = dataclasses.replace(chosen, state=GenerationState.CURRENT, current_since=since, after_batch=batch)
        changed = tuple(current if each is chosen else _kept(each) for each in self.generations)
        return dataclasses.replace(self, generations=changed)

    def restore(self, number: int, *, since: str, restored_after: int | None, wrote_before: str | None) -> Manifest:
        """Return the manifest with a kept generation made current again; unchanged if it is current already.

        Args:
            number: the generation.
            since: the present time.
            restored_after: see `Generation`.
            wrote_before: see `Generation`.
        """
        changed = self.make_current(number, allowed=GenerationState.KEPT, since=since)
        if changed is self:
            return self
        generations = tuple(
            dataclasses.replace(each, restored_after=restored_after, wrote_before=wrote_before)
            if each.number == number
            else each
            for each in changed.generations
        )
        return dataclasses.replace(changed, generations=generations)

    def retire(self, why: str) -> Manifest:
        """Return the manifest without a current generation: all rows of the flow have left the table.

        A building generation is not affected, because it never had a row in the table.
        """
        undone = (
            each if each.state is GenerationState.BUILDING else dataclasses.replace(_kept(each), undone_by=why)
            for each in self.generations
        )
        return dataclasses.replace(self, generations=tuple(undone))

    def update(
        self,
        number: int,
        *,
        completed: bool | None = None,
        query: str | None = None,
        sources: tuple[str, ...] | None = None,
    ) -> Manifest:
        """Return the manifest with the given values of this generation changed; None keeps a value."""
        chosen = self._require(number, "update", set(GenerationState))
        changed = dataclasses.replace(
            chosen,
            completed=chosen.completed if completed is None else completed,
            query=chosen.query if query is None else query,
            sources=chosen.sources if sources is None else _named(chosen.sources, sources),
        )
        generations = tuple(changed if each is chosen else each for each in self.generations)
        return dataclasses.replace(self, generations=generations)

    def without(self, number: int) -> Manifest:
        """Return the manifest without this building generation; unchanged if there is no such generation."""
        chosen = self.find(number)
        if chosen is None:
            return self
        self._require(number, "abandon", {GenerationState.BUILDING})
        return dataclasses.replace(self, generations=tuple(each for each in self.generations if each is not chosen))

    def is_undone(self, number: int) -> bool:
        """Whether a rewind went back to a time before this generation began."""
        rewinds = (each for each in self.generations if each.rewound_to is not None and each.number > number)
        return any((each.rewound_to or 0) < number for each in rewinds)

    def to_json(self) -> str:
        """Return the manifest as JSON."""
        return _FORMAT.text(dataclasses.asdict(self), indent=1) + "\n"

    def _require(self, number: int, action: str, states: set[GenerationState]) -> Generation:
        chosen = self.find(number)
        if chosen is None:
            raise self._misused(number, action, "it does not exist")
        if chosen.state not in states:
            raise self._misused(number, action, f"its state is {chosen.state}")
        return chosen

    def _misused(self, number: int, action: str, problem: str) -> InternalError:
        return InternalError("GENERATION_MISUSED", flow=self.flow, number=number, action=action, problem=problem)


def parse_manifest(text: str, path: str) -> Manifest:
    """Parse the JSON of `to_json`.

    Raises:
        OperationError: CHECKPOINT_MANIFEST_DAMAGED with the path, if the text is not a valid manifest;
            STORED_FORMAT_UNKNOWN.
    """
    try:
        fields = _FORMAT.content(text, path)
        generations = [
            Generation(
                **{
                    **each,
                    "state": GenerationState(each["state"]),
                    "sources": tuple(map(tuple, each["sources"])),
                }
            )
            for each in fields["generations"]
        ]
        return Manifest(
            dataset=QualifiedName(**fields["dataset"]),
            flow=QualifiedName(**fields["flow"]),
            generations=tuple(generations),
            last_number=int(fields["last_number"]),
            owner=str(fields["owner"]),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        problem = f"{type(error).__name__}: {error}"
        raise OperationError("CHECKPOINT_MANIFEST_DAMAGED", path=path, problem=problem) from error


def _kept(generation: Generation) -> Generation:
    if generation.state is GenerationState.CURRENT:
        return dataclasses.replace(generation, state=GenerationState.KEPT)
    return generation


def _named(known: tuple[tuple[str, ...], ...], sources: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Return all known names of each source, the present name last."""
    if len(known) != len(sources):
        return tuple((name,) for name in sources)
    pairs = zip(known, sources, strict=True)
    return tuple((*(name for name in names if name != now), now) for names, now in pairs)


def _misplaced(
    known: Sequence[Sequence[str]], present: Sequence[str], view: Callable[[str], str]
) -> tuple[str, str] | None:
    """Return a misplaced source and the last source at its position; None if there is none."""
    places = [{view(name) for name in names} for names in known]
    kept = {view(now) for now, names in zip(present, places, strict=True) if view(now) in names}
    moved = set().union(*places) - kept
    pairs = zip(present, known, places, strict=True)
    found = ((now, names[-1]) for now, names, place in pairs if view(now) in moved and view(now) not in place)
    other = (
        (now, names[-1])
        for now, names in zip(present, known, strict=True)
        if _parts(now)[0] == _parts(names[-1])[0] and _parts(now)[1] != _parts(names[-1])[1]
    )
    return next(found, None) or next(other, None)


def _place_of(name: str) -> str:
    """Return the location and kind of a source, without its options."""
    return " ".join(_parts(name))


def _parts(name: str) -> tuple[str, str]:
    """Return the location and kind of a source."""
    found = _NAME.fullmatch(name)
    return (name, "") if found is None else (found[1], found[2])
