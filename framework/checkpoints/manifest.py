"""One flow's generations as a value, with the changes that are allowed, and as JSON."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from enum import StrEnum

from framework.foundation.errors import InternalError, OperationError
from framework.foundation.names import QualifiedName

_FORMAT = 1


class GenerationState(StrEnum):
    """What a generation's checkpoint is for.

    `BUILDING` belongs to a rebuild beside the table that still serves; `CURRENT` is what the next
    update goes on with; `KEPT` was current once and waits for a roll-back.
    """

    BUILDING = "building"
    CURRENT = "current"
    KEPT = "kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One life of a flow's checkpoint, from nothing.

    Args:
        number: from 1; ascends with each generation that began, and is never used twice.
        begun_at: when it began, ISO 8601 in UTC.
        reason: why it began, for people.
        start: the position its sources start at, as text; None is the flow's own.
        state: what its checkpoint is for.
        completed: a once flow's mark that its data is in.
        fingerprint: free text that tells whether the flow's code is the one that built it.
        current_since: when it became the current one, the last time; None if it never did.
    """

    number: int
    begun_at: str
    reason: str
    start: str | None = None
    state: GenerationState = GenerationState.CURRENT
    completed: bool = False
    fingerprint: str = ""
    current_since: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """All generations of one flow into one dataset, oldest first.

    At most one is current, at most one is building. `last_number` is the highest that was ever
    given out: that of an abandoned generation is not given out again.
    """

    dataset: QualifiedName
    flow: QualifiedName
    generations: tuple[Generation, ...] = ()
    last_number: int = 0

    def find(self, number: int) -> Generation | None:
        """The generation of that number, if it is there."""
        return next((each for each in self.generations if each.number == number), None)

    def in_state(self, state: GenerationState) -> Generation | None:
        """The first generation in that state; for `CURRENT` and `BUILDING` it is the only one."""
        return next((each for each in self.generations if each.state is state), None)

    def begin(self, generation: Generation, *, after: int) -> Manifest:
        """The manifest with one more generation, as current or as building.

        A new current one keeps the former; a new building one takes the place of the former.

        Args:
            generation: the new one.
            after: the highest number that was ever given out.
        """
        if generation.number <= max(after, self.last_number):
            raise self._misused(generation.number, "begin", "its number was given out before")
        if generation.state is GenerationState.BUILDING:
            others = [each for each in self.generations if each.state is not GenerationState.BUILDING]
        else:
            others = [_kept(each) for each in self.generations]
        return dataclasses.replace(self, generations=(*others, generation), last_number=generation.number)

    def make_current(self, number: int, *, allowed: GenerationState, since: str) -> Manifest:
        """The manifest with this generation as current and the former current one kept.

        Raises:
            InternalError: GENERATION_MISUSED when it is neither current already nor `allowed`.
        """
        chosen = self._require(number, "make current", {allowed, GenerationState.CURRENT})
        if chosen.state is GenerationState.CURRENT:
            return self
        current = dataclasses.replace(chosen, state=GenerationState.CURRENT, current_since=since)
        changed = tuple(current if each is chosen else _kept(each) for each in self.generations)
        return dataclasses.replace(self, generations=changed)

    def update(self, number: int, *, completed: bool | None = None, fingerprint: str | None = None) -> Manifest:
        """The manifest with this generation's mark or fingerprint changed; None leaves one as it is."""
        chosen = self._require(number, "update", set(GenerationState))
        changed = dataclasses.replace(
            chosen,
            completed=chosen.completed if completed is None else completed,
            fingerprint=chosen.fingerprint if fingerprint is None else fingerprint,
        )
        generations = tuple(changed if each is chosen else each for each in self.generations)
        return dataclasses.replace(self, generations=generations)

    def without(self, number: int) -> Manifest:
        """The manifest without this building generation; one that is not there stays away."""
        chosen = self.find(number)
        if chosen is None:
            return self
        self._require(number, "abandon", {GenerationState.BUILDING})
        return dataclasses.replace(self, generations=tuple(each for each in self.generations if each is not chosen))

    def to_json(self) -> str:
        """The manifest as it is stored."""
        return json.dumps({"format": _FORMAT, **dataclasses.asdict(self)}, indent=1) + "\n"

    def _require(self, number: int, action: str, states: set[GenerationState]) -> Generation:
        chosen = self.find(number)
        if chosen is None:
            raise self._misused(number, action, "there is no such generation")
        if chosen.state not in states:
            raise self._misused(number, action, f"it is {chosen.state}")
        return chosen

    def _misused(self, number: int, action: str, problem: str) -> InternalError:
        return InternalError("GENERATION_MISUSED", flow=self.flow, number=number, action=action, problem=problem)


def parse_manifest(text: str, path: str) -> Manifest:
    """The manifest that `to_json` wrote.

    Raises:
        OperationError: CHECKPOINT_MANIFEST_DAMAGED with the path, when the text is not one.
    """
    try:
        fields = json.loads(text)
        if fields["format"] != _FORMAT:
            raise ValueError(f"format {fields['format']}")  # noqa: EM102, TRY003, TRY301 - becomes the `problem` below
        generations = [
            Generation(**{**each, "state": GenerationState(each["state"])}) for each in fields["generations"]
        ]
        return Manifest(
            dataset=QualifiedName(**fields["dataset"]),
            flow=QualifiedName(**fields["flow"]),
            generations=tuple(generations),
            last_number=int(fields["last_number"]),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        problem = f"{type(error).__name__}: {error}"
        raise OperationError("CHECKPOINT_MANIFEST_DAMAGED", path=path, problem=problem) from error


def _kept(generation: Generation) -> Generation:
    if generation.state is GenerationState.CURRENT:
        return dataclasses.replace(generation, state=GenerationState.KEPT)
    return generation
