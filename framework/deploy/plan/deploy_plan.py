"""What a deploy would do, as values: for each resource its difference, its class and the guard's verdict."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace

from framework.deploy.bundle.bundle import FrozenSpec
from framework.deploy.plan.diff import ChangeClass, FieldChange
from framework.deploy.plan.gateway_state import GatewayState
from framework.deploy.plan.policy import ExitCode, Verdict, exit_code
from framework.deploy.state.files import FileHashes
from framework.deploy.state.normalize import FieldPath


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedChange:
    """One resource of a plan.

    Args:
        change_class: the highest among its fields.
        fields: what differs; empty for one that is made or deleted.
        stops_gateway: whether a write can stop an ingestion gateway: it is one, or a job that runs one.
        phantoms: fields that only seem to differ; `settled` are those with another value that needs no write.
        unnamed: accepted fields that the bundle does not name, which another tool would remove.
        verdict: what the guard says.
        reason: why, for people.
        gateway: what the gateway was doing, where its log was read.
        spec: the bundle's settings, references resolved as far as their ids are known; None to delete.
        prevent_destroy: what the bundle says, or the state of what has left it.
        is_protected: what the state of the last deploy says; its `prevent_destroy` stays in force.
        lost_id: the id of a gateway that is on record, and that somebody deleted outside of this bundle.
        remote_id: its id, where it is there.
        remote_modified: when its settings were changed last.
        access: whether permissions or grants change, by calls of their own.
        record: whether the state has to be written though no call is made: a deploy died before it could, or a change
            is deferred for the first time.
    """

    key: str
    kind: str
    name: str
    stops_gateway: bool
    change_class: ChangeClass
    verdict: Verdict
    reason: str
    fields: tuple[FieldChange, ...] = ()
    phantoms: tuple[FieldPath, ...] = ()
    settled: tuple[FieldPath, ...] = ()
    unnamed: tuple[FieldPath, ...] = ()
    gateway: GatewayState | None = None
    spec: FrozenSpec | None = None
    depends_on: tuple[str, ...] = ()
    prevent_destroy: bool = False
    is_protected: bool = False
    lost_id: str | None = None
    remote_id: str | None = None
    remote_modified: int | None = None
    access: bool = False
    record: bool = False

    @property
    def changes_protection(self) -> bool:
        """Whether `prevent_destroy` has another value than on record, which takes effect without a call to it."""
        return self.remote_id is not None and self.is_protected != self.prevent_destroy

    @property
    def acts(self) -> bool:
        """Whether applying it makes a call or writes the state."""
        return self.verdict is Verdict.APPLY or self.access or self.record


def digest_of(change: PlannedChange) -> str:
    """The same for changes of the same fields to the same values."""
    rows = [(field.path, field.wanted) for field in change.fields]
    return hashlib.sha256(json.dumps(rows).encode("utf-8")).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployPlan:
    """All changes of one target, in the order in which they would be done.

    Args:
        lineage: of the state it was made from; with `serial` it tells whether that state still stands.
        uploads: files to upload, and `removals` those to delete.
        files: all files with their hashes.
    """

    bundle: str
    target: str
    lineage: str
    serial: int
    changes: tuple[PlannedChange, ...]
    uploads: tuple[str, ...] = ()
    removals: tuple[str, ...] = ()
    files: FileHashes = ()

    @property
    def is_refused(self) -> bool:
        """Whether something in it is refused: then nothing of it is done."""
        return any(change.verdict is Verdict.REFUSE for change in self.changes)

    @property
    def acts(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.uploads or self.removals) or any(change.acts for change in self.changes)

    @property
    def waits(self) -> bool:
        """Whether something in it waits for its time."""
        return any(change.verdict in (Verdict.QUEUE, Verdict.HOLD, Verdict.UNKNOWN) for change in self.changes)

    def exit_code(self) -> ExitCode:
        """How `plan` ends."""
        code = exit_code((change.verdict for change in self.changes), applied=False)
        return ExitCode.CHANGES if code is ExitCode.CLEAN and self.acts else code

    def change(self, key: str) -> PlannedChange | None:
        """The change of the resource of that key."""
        return next((each for each in self.changes if each.key == key), None)

    def fingerprint(self) -> str:
        """The same for plans that would do the same to the same state; what gateways are doing does not count."""
        rows = [
            (change.key, change.change_class, change.remote_id, change.remote_modified, change.access)
            + tuple((field.path, field.remote, field.wanted) for field in change.fields)
            + ((change.spec.text,) if change.spec is not None else ())
            for change in self.changes
            if change.change_class not in (ChangeClass.NONE, ChangeClass.PHANTOM)
        ]
        text = json.dumps([self.bundle, self.target, self.lineage, self.serial, rows, self.files])
        return hashlib.sha256(text.encode("utf-8")).hexdigest()


def skip_if_refused(plan: DeployPlan) -> DeployPlan:
    """Return the plan as it ends: nothing of a plan is done when something in it is refused."""
    refused = [change.key for change in plan.changes if change.verdict is Verdict.REFUSE]
    if not refused:
        return plan
    reason = f"nothing is done while {refused[0]} is refused"
    changes = tuple(
        replace(change, verdict=Verdict.SKIP, reason=reason)
        if change.verdict in (Verdict.APPLY, Verdict.QUEUE) or (change.verdict is Verdict.NOTHING and change.access)
        else change
        for change in plan.changes
    )
    return replace(plan, changes=changes, uploads=(), removals=())
