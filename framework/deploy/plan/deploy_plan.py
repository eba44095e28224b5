"""Values of a deploy plan: for each resource its differences, its change class and the guard's verdict.

The functions check a plan against the policy's keys, skip a refused plan, and judge it for a deploy by another tool.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from framework.deploy.bundle.documents.bundle import FrozenSpec
from framework.deploy.plan.diff import ChangeClass, FieldChange
from framework.deploy.plan.gateway_state import GatewayState
from framework.deploy.plan.policy import ExitCode, Policy, Verdict, exit_code
from framework.deploy.state.files import FileHashes
from framework.deploy.state.normalize import FieldPath
from framework.foundation.errors import UserError
from framework.foundation.nearest import nearest_hint


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedChange:
    """One resource of a plan.

    Args:
        change_class: the highest class of its fields.
        fields: fields that differ; empty for a resource that is created or deleted.
        stops_gateway: whether a write can stop an ingestion gateway: the resource is one, or a job that runs one.
        phantoms: fields that differ but need no write; `settled` are the ones with another value, not only
            another spelling.
        unnamed: accepted fields that the bundle does not name, which another tool would remove.
        verdict: the guard's verdict.
        reason: reason of the verdict, in words.
        gateway: state of the gateway if its log was read.
        spec: settings in the bundle, references resolved as far as their ids are known; None for a deletion.
        prevent_destroy: value in the bundle, or in the state for a resource that has left the bundle.
        is_protected: `prevent_destroy` in the state of the last deploy; it stays in force.
        lost_id: id of a gateway that is in the state but was deleted outside of this bundle.
        remote_id: id of the resource; None if it does not exist.
        remote_modified: time of the last change of its settings.
        access: whether permissions or grants change, by separate calls.
        secrets: digests of the texts that are secret under any name.
        record: whether the state is written although no call is made: an earlier deploy stopped before it recorded
            the resource, or a change is deferred for the first time.
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
    secrets: frozenset[str] = frozenset()

    @property
    def changes_protection(self) -> bool:
        """Whether `prevent_destroy` differs from the state; a change of it needs no call to the resource."""
        return self.remote_id is not None and self.is_protected != self.prevent_destroy

    @property
    def acts(self) -> bool:
        """Whether its application makes a call or writes the state."""
        return self.verdict is Verdict.APPLY or self.access or self.record


def digest_of(change: PlannedChange) -> str:
    """Return a digest that is equal for changes of the same fields to the same values."""
    rows = [(field.path, field.wanted) for field in change.fields]
    return hashlib.sha256(json.dumps(rows).encode("utf-8")).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployPlan:
    """All changes of one target, in the order of their application.

    Args:
        lineage: lineage of the state that the plan was made from; with `serial` it identifies that state.
        uploads: files to upload; `removals` are the files to delete.
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
        """Whether any change is refused; then no change of the plan is applied."""
        return any(change.verdict is Verdict.REFUSE for change in self.changes)

    @property
    def acts(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.uploads or self.removals) or any(change.acts for change in self.changes)

    @property
    def waits(self) -> bool:
        """Whether any change waits: it is queued, held or unknown."""
        return any(change.verdict in (Verdict.QUEUE, Verdict.HOLD, Verdict.UNKNOWN) for change in self.changes)

    def exit_code(self) -> ExitCode:
        """Return the exit code of `plan`."""
        code = exit_code((change.verdict for change in self.changes), applied=False)
        return ExitCode.CHANGES if code is ExitCode.CLEAN and self.acts else code

    def change(self, key: str) -> PlannedChange | None:
        """Return the change of a resource; None if the plan does not contain it."""
        return next((each for each in self.changes if each.key == key), None)

    def fingerprint(self) -> str:
        """Return a hash that is equal for plans of the same changes to the same state; gateway states do not count."""
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
    """Return the plan with its changes skipped if any change of it is refused."""
    refused = [change.key for change in plan.changes if change.verdict is Verdict.REFUSE]
    if not refused:
        return plan
    reason = f"no change is applied because {refused[0]} is refused"
    changes = tuple(
        replace(change, verdict=Verdict.SKIP, reason=reason)
        if change.verdict in (Verdict.APPLY, Verdict.QUEUE) or (change.verdict is Verdict.NOTHING and change.access)
        else change
        for change in plan.changes
    )
    return replace(plan, changes=changes, uploads=(), removals=())


def check_keys(plan: DeployPlan, policy: Policy, *, declared: Sequence[str]) -> None:
    """Check that each key in the policy names a resource, and for an override or tag write a gateway or a job.

    Args:
        plan: plan of the target.
        policy: the caller's policy.
        declared: keys of the bundle's resources, for a plan that deletes all of them.

    Raises:
        UserError: DEPLOY_KEY_UNKNOWN, DEPLOY_OVERRIDE_NO_GATEWAY.
    """
    known = sorted({*declared, *(change.key for change in plan.changes)})
    gateways = [change.key for change in plan.changes if change.stops_gateway]
    for key in sorted(policy.allow_recreate):
        _check_known("--allow-recreate", key, known, plan)
    for option, reasons in (("--override", policy.overrides), ("--write-tags", policy.tag_writes)):
        for key, _ in reasons:
            _check_known(option, key, known, plan)
            change = plan.change(key)
            if change is not None and not _can_stop_gateway(change):
                text = ", ".join(gateways) or "none"
                raise UserError("DEPLOY_OVERRIDE_NO_GATEWAY", option=option, key=key, target=plan.target, gateways=text)


def _can_stop_gateway(change: PlannedChange) -> bool:
    """Return whether a write can stop a gateway; a job's tasks are read only if the job exists and changes."""
    is_read = change.remote_id is not None and change.change_class is not ChangeClass.NONE
    return change.stops_gateway or (change.kind == "jobs" and not is_read)


def _check_known(option: str, key: str, known: Sequence[str], plan: DeployPlan) -> None:
    if key not in known:
        hint = nearest_hint(key, known)
        text = ", ".join(known) or "none"
        raise UserError("DEPLOY_KEY_UNKNOWN", option=option, key=key, target=plan.target, hint=hint, known=text)


def judge_gateways(plan: DeployPlan) -> tuple[tuple[PlannedChange, ...], ExitCode]:
    """Return the gateways of a plan, the jobs that run them, and the exit code for a tool that writes every difference.

    A change that Sluice would defer, a field that only differs in spelling, and an accepted field that the bundle does
    not name are held: such a tool would write them.
    """
    # Permissions and grants are separate calls, and the guard writes no state.
    gateways = tuple(
        replace(_with_unnamed(each), access=False, record=False) for each in plan.changes if each.stops_gateway
    )
    code = exit_code((change.verdict for change in gateways), applied=True)
    if code is ExitCode.CLEAN and any(change.verdict is Verdict.DEFER or change.phantoms for change in gateways):
        code = ExitCode.HELD
    return gateways, code


def _with_unnamed(change: PlannedChange) -> PlannedChange:
    """Return the change with the fields that another tool removes because the bundle does not name them."""
    if not change.unnamed:
        return change
    fields = tuple(sorted({*change.phantoms, *change.unnamed}))
    if change.verdict is not Verdict.NOTHING:
        return replace(change, phantoms=fields)
    names = ", ".join(".".join(path) for path in change.unnamed)
    reason = f"another deployment tool would remove the accepted settings {names}; add them to the bundle"
    return replace(change, phantoms=fields, reason=reason)
