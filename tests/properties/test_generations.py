"""No operation on a flow's generations, and no kill during one, loses a generation."""

from __future__ import annotations

import tempfile
from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from framework.checkpoints.generations import GenerationState, GenerationStore
from framework.foundation import failpoints
from framework.foundation.files.storage import LocalStorage
from framework.foundation.names import QualifiedName
from framework.testing.manual_clock import ManualClock

NAME = QualifiedName.parse("orders", catalog="main", schema="sales")
KEPT, CURRENT, BUILDING = GenerationState.KEPT, GenerationState.CURRENT, GenerationState.BUILDING
CRASHES = st.sampled_from([None, "storage.before_replace", "generations.before_delete"])


class KilledError(BaseException):
    """Simulates the death of the process: no handler of Sluice may catch it."""


class GenerationsMachine(RuleBasedStateMachine):
    """Begins, completes, promotes, restores and abandons generations, and is killed at failpoints.

    The model is a dictionary of number to state. After a kill, the next store reads the files, which
    must equal the model before or after the change, never a mixture.
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.storage = LocalStorage(self.folder.name)
        self.store = GenerationStore(self.storage, ManualClock())
        self.model: dict[int, GenerationState] = {}
        self.completed: set[int] = set()
        self.highest = 0

    def teardown(self) -> None:
        """Delete the folder."""
        self.folder.cleanup()

    def in_state(self, state: GenerationState) -> list[int]:
        """The model's generations in that state."""
        return [number for number, each in self.model.items() if each is state]

    def attempt(self, crash: str | None, action: Callable[[], object], after: dict[int, GenerationState]) -> bool:
        """Execute an operation, perhaps killed at a failpoint; the files are the new model."""

        def kill() -> None:
            raise KilledError

        before = dict(self.model)
        if crash is not None:
            failpoints.arm(crash, action=kill)
        try:
            action()
            happened = True
        except KilledError:
            self.store = GenerationStore(self.storage, ManualClock())
            found = {each.number: each.state for each in self.store.read(NAME, NAME)}
            assert found in (before, after)
            happened = found == after
        finally:
            failpoints.disarm()
        self.model = after if happened else before
        return happened

    @rule(staged=st.booleans(), gap=st.integers(0, 2), crash=CRASHES)
    def begin(self, *, staged: bool, gap: int, crash: str | None) -> None:
        """Begin with a number of one's own or the next one, and write a first batch into it."""
        number = self.highest + 1 + gap
        if staged:
            after = {n: state for n, state in self.model.items() if state is not BUILDING} | {number: BUILDING}
        else:
            after = {n: KEPT if state is CURRENT else state for n, state in self.model.items()} | {number: CURRENT}
        if self.attempt(crash, lambda: self.store.begin(NAME, NAME, reason="r", staged=staged, number=number), after):
            self.highest = number
            assert self.storage.list_names(self.store.path(NAME, NAME, number)) == []
            self.storage.write_text(f"{self.store.path(NAME, NAME, number)}/offsets/0", str(number))

    @precondition(lambda self: self.in_state(BUILDING))
    @rule(crash=CRASHES)
    def promote(self, crash: str | None) -> None:
        """Make the rebuild's generation the current one."""
        number = self.in_state(BUILDING)[0]
        after = {n: KEPT if state is CURRENT else state for n, state in self.model.items()} | {number: CURRENT}
        self.attempt(crash, lambda: self.store.promote(NAME, NAME, number), after)

    @precondition(lambda self: self.in_state(BUILDING))
    @rule(crash=CRASHES)
    def abandon(self, crash: str | None) -> None:
        """Abandon the rebuild."""
        number = self.in_state(BUILDING)[0]
        after = {n: state for n, state in self.model.items() if n != number}
        self.attempt(crash, lambda: self.store.abandon(NAME, NAME, number), after)

    @precondition(lambda self: self.in_state(KEPT))
    @rule(data=st.data(), crash=CRASHES)
    def restore(self, data: st.DataObject, crash: str | None) -> None:
        """Roll back to any previous generation."""
        number = data.draw(st.sampled_from(self.in_state(KEPT)))
        after = {n: KEPT if state is CURRENT else state for n, state in self.model.items()} | {number: CURRENT}
        self.attempt(crash, lambda: self.store.restore(NAME, NAME, number), after)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), crash=CRASHES)
    def complete(self, data: st.DataObject, crash: str | None) -> None:
        """Mark any generation as complete; repeat it after a kill, as an update would."""
        number = data.draw(st.sampled_from(sorted(self.model)))
        self.attempt(crash, lambda: self.store.complete(NAME, NAME, number), self.model)
        self.store.complete(NAME, NAME, number)
        self.completed.add(number)

    @invariant()
    def disk_is_the_model(self) -> None:
        """Numbers ascend, states are the model's, at most one is current and one building."""
        found = self.store.read(NAME, NAME)
        assert {each.number: each.state for each in found} == self.model
        assert [each.number for each in found] == sorted(self.model)
        assert len(self.in_state(CURRENT)) <= 1
        assert len(self.in_state(BUILDING)) <= 1
        assert {each.number for each in found if each.completed} == self.completed & set(self.model)

    @invariant()
    def there_is_a_current_one_once_one_was_kept(self) -> None:
        """After a generation is kept, there is always a current one."""
        assert bool(self.in_state(CURRENT)) or not self.in_state(KEPT)

    @invariant()
    def no_checkpoint_is_lost(self) -> None:
        """Each generation that is named still has the batch that was written into it."""
        written = {n: self.storage.read_text(f"{self.store.path(NAME, NAME, n)}/offsets/0") for n in self.model}
        assert written == {n: str(n) for n in self.model}


TestGenerations = GenerationsMachine.TestCase
TestGenerations.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)
