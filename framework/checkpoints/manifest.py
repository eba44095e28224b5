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

    `BUILDING` belongs to an unpublished rebuild; `CURRENT` is continued by the next update; `KEPT`
    was current before and is kept for a roll-back.
    """

    BUILDING = "building"
    CURRENT = "current"
    KEPT = "kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One checkpoint of a flow, from an empty folder on.

    Args:
        number: from 1, ascending; never used twice.
        begun_at: when it began, ISO 8601 in UTC.
        reason: why it began, as text for users.
        start: the position its sources start at, as text; None: the flow's own.
        rewound_to: the number of the generation that a rewind went back to, 0 for none; None if no rewind began it.
        state: the state of the generation.
        completed: whether a once flow has written all its data.
        fingerprint: identifies what it was begun for, as free text.
        query: the id of the stream that runs from its checkpoint, once it has started; empty before, and for a batch.
            It tells a checkpoint that was deleted from one that is new.
        sources: for each source of the stream, in the order of its query, the names that it has had, the last one at
            the end; empty if they are unknown.
        current_since: when it last became the current one, later than any other did before; None if it never did.
        after_batch: the last of its batches in the table when it became current: of a full refresh when it was
            published, of a rewind where it continues; None if it began without one.
        undone_by: why rows that it wrote have left the table, `BY_REWIND`, `BY_REFRESH` or `BY_LOSS`: a roll-back to it
            would lose them; empty if they have not.
        restored_after: the last of its batches that was committed when a roll-back last made it current again, -1 for
            none of a complete one; None if no roll-back did, or if it had none.
        wrote_before: the `current_since` of the last time before that roll-back in which it may have written; None if
            it never had.
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
        """Whether rows that it wrote may be in the target: it is not being built, and nothing has undone it."""
        return self.state is not GenerationState.BUILDING and not self.undone_by

    def misplaced(self, present: Sequence[str], place: Callable[[str], str] = str) -> tuple[str, str] | None:
        """Return a source and one at whose position its query now reads it; None if there is no such source.

        A checkpoint knows the sources of a query by their places. A source that is new may take the place of another
        one, such as a folder that was renamed; one that has left its own place, or that is read by another kind of
        source, would be compared with what was read of the other one.

        Args:
            present: the sources in the order of the present query.
            place: returns the one name of a source that may have several.
        """
        if len(present) != len(self.sources):
            return None
        found = _misplaced(self.sources, present, place)
        return found or _misplaced(self.sources, present, lambda name: _place_of(place(name)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """All generations of one flow into one dataset, oldest first.

    At most one is current, and at most one is building. `last_number` is the highest number ever
    assigned: the number of an abandoned generation is not assigned again. `owner` is the pipeline that runs the flow
    into a sink; empty for a table, which has a record of its own, and before the first stream.
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
        """Return the manifest with one more generation, current or building.

        A new current generation keeps the previous one. A new building generation replaces the previous one.

        Args:
            generation: the new generation.
            after: the highest number ever assigned.
            undoes: a rewind begins it: rows of the earlier generations have left the table.
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
            allowed: its state, unless it is current already.
            since: the present time.
            after_batch: the last of its batches in the table; None: as before.

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
        """Return the manifest with a kept generation as current again; unchanged if it is current.

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

        One that is building has never had a row in it.
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
        """Return the manifest with values of this generation changed; None keeps a value."""
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
        """Return the manifest without this building generation; unchanged if it has no such generation."""
        chosen = self.find(number)
        if chosen is None:
            return self
        self._require(number, "abandon", {GenerationState.BUILDING})
        return dataclasses.replace(self, generations=tuple(each for each in self.generations if each is not chosen))

    def is_undone(self, number: int) -> bool:
        """Whether a rewind went back to before this generation began."""
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
        OperationError: CHECKPOINT_MANIFEST_DAMAGED with the path, if the text is not a manifest;
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
    """Return the names of the sources with the present ones at their ends."""
    if len(known) != len(sources):
        return tuple((name,) for name in sources)
    pairs = zip(known, sources, strict=True)
    return tuple((*(name for name in names if name != now), now) for names, now in pairs)


def _misplaced(
    known: Sequence[Sequence[str]], present: Sequence[str], view: Callable[[str], str]
) -> tuple[str, str] | None:
    """Return a source and the last one at its place, if it was at other places only."""
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
    """Return location and kind of a source, without its options."""
    return " ".join(_parts(name))


def _parts(name: str) -> tuple[str, str]:
    """Return location and kind of a source."""
    found = _NAME.fullmatch(name)
    return (name, "") if found is None else (found[1], found[2])
