"""Application of planned changes: a call, then its record in the state.

If a deploy stops between the two, the next deploy finds the difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from databricks.sdk.errors import NotFound, ResourceConflict

from framework.deploy.api.workspace import ResponseLost, Workspace
from framework.deploy.bundle.checks.references import resolve_settings, unresolved
from framework.deploy.bundle.documents.bundle import Bundle, FrozenSpec
from framework.deploy.observe import observe_before_write
from framework.deploy.plan.deploy_plan import PlannedChange, digest_of
from framework.deploy.plan.diff import ChangeClass
from framework.deploy.plan.planner import plan_deletion, plan_resource
from framework.deploy.plan.policy import WAITING, Policy, Verdict
from framework.deploy.state.lock import DeployLock
from framework.deploy.state.resource_api import Remote, RemoteKind, access_of, set_access
from framework.deploy.state.state import STATE_FILE, Deployed, DeployState, write_state
from framework.foundation.errors import OperationError

_MAX_CREATES = 3


class Applier:
    """Applies planned changes one at a time and records each in the state.

    Args:
        state: state at the start; `self.state` is the current state.
        lock: checked before each write; None for a target without a lock.
    """

    def __init__(
        self,
        workspace: Workspace,
        *,
        kinds: Mapping[str, RemoteKind],
        bundle: Bundle,
        state: DeployState,
        lock: DeployLock | None,
        policy: Policy,
        user: str,
    ) -> None:
        self._workspace = workspace
        self._kinds = kinds
        self._bundle = bundle
        self._lock = lock
        self._policy = policy
        self._user = user
        self._owner = f"{bundle.state_path}/{STATE_FILE}"
        self._stopped: frozenset[str] = frozenset()
        self.state = state

    def apply(self, change: PlannedChange) -> PlannedChange:
        """Apply a change and return it with its final verdict; before it stops a gateway, the guard decides again."""
        affected: tuple[str, ...] = ()
        if change.verdict is Verdict.APPLY and change.stops_gateway and change.remote_id is not None:
            change, affected = self._recheck(change)
        if change.verdict is Verdict.APPLY:
            self._check_lock()
            self._stopped |= {*affected}
            self._do(change)
        elif change.record:
            self._check_lock()
            self._record(change)
        if change.access and change.spec is not None and change.verdict is not Verdict.APPLY:
            self._apply_access(change.key, change.kind, self._resolved(change))
        return change

    def keep(self, state: DeployState) -> None:
        """Write the state and keep it as the current state."""
        write_state(self._workspace, self._bundle.state_path, state)
        self.state = state

    def _do(self, change: PlannedChange) -> None:
        if change.change_class in (ChangeClass.DELETE, ChangeClass.RECREATE):
            self._delete(change)
        if change.change_class is ChangeClass.DELETE:
            return
        spec = self._resolved(change)
        previous = self.state.get(change.key)
        if change.change_class in (ChangeClass.CREATE, ChangeClass.RECREATE):
            found_id = self._create(change, spec, previous)
        else:
            found_id = self._replace(change, spec)
        self._keep_resource(change, found_id, _without_access(spec, previous))
        if access_of(spec) or change.access:
            self._apply_access(change.key, change.kind, spec)

    def _create(self, change: PlannedChange, spec: dict[str, Any], previous: Deployed | None) -> str:
        """Create a resource; the state records the intent first, so that a deploy after a crash looks for it."""
        kind = self._kinds[change.kind]
        if previous is not None and previous.id is None:
            found = kind.find(previous.spec.as_dict(), self._owner)
            if found is not None:
                return found
        else:
            self.keep(self.state.with_resource(_intended(change, spec)))
        for _ in range(_MAX_CREATES):
            try:
                return kind.create(spec, self._owner)
            except ResponseLost:
                found = kind.find(spec, self._owner)
                if found is not None:
                    return found
            except ResourceConflict:
                self.keep(self.state.without(change.key))
                raise OperationError(
                    "DEPLOY_RESOURCE_EXISTS", key=change.key, kind=change.kind, name=change.name
                ) from None
        raise OperationError("WORKSPACE_CALL_FAILED", call=f"creating {change.key}", cause="No response; not created.")

    def _replace(self, change: PlannedChange, spec: dict[str, Any]) -> str:
        """Replace the settings of a resource if it has not changed since the plan was made."""
        assert change.remote_id is not None, "an existing resource has an id"
        kind = self._kinds[change.kind]
        remote = Remote(id=change.remote_id, spec=FrozenSpec.of({}), modified=change.remote_modified)
        try:
            kind.replace(remote, spec, self._owner)
        except ResponseLost:
            # If the call took effect, the modification time differs; a second call would be a second restart.
            found = kind.read(change.remote_id)
            if found is None or found.modified == change.remote_modified:
                raise
        except (NotFound, ResourceConflict):
            raise OperationError(
                "WORKSPACE_CALL_FAILED", call=f"changing {change.key}", cause="It was changed after the plan was made."
            ) from None
        return change.remote_id

    def _delete(self, change: PlannedChange) -> None:
        kind, previous = self._kinds[change.kind], self.state.get(change.key)
        found_id = change.remote_id
        if found_id is None and previous is not None and previous.id is None:
            found_id = kind.find(previous.spec.as_dict(), self._owner)
        if found_id is not None:
            kind.delete(found_id)
        self.keep(self.state.without(change.key))

    def _record(self, change: PlannedChange) -> None:
        """Record a change that needs no call: a deferral, a deploy without a record, a deleted resource."""
        previous = self.state.get(change.key)
        if change.change_class is ChangeClass.DELETE:
            self.keep(self.state.without(change.key))
        elif change.verdict in WAITING and previous is not None:
            deferred = digest_of(change) if change.verdict is Verdict.DEFER else previous.deferred
            kept = replace(previous, deferred=deferred, prevent_destroy=change.prevent_destroy)
            self.keep(self.state.with_resource(kept))
        elif change.remote_id is not None:
            self._keep_resource(change, change.remote_id, self._resolved(change))

    def _keep_resource(self, change: PlannedChange, id: str, spec: dict[str, Any]) -> None:
        remote = self._kinds[change.kind].read(id)
        deployed = replace(_intended(change, spec), id=id, remote=FrozenSpec.of({}) if remote is None else remote.spec)
        self.keep(self.state.with_resource(deployed))

    def _apply_access(self, key: str, kind: str, spec: dict[str, Any]) -> None:
        previous = self.state.get(key)
        assert previous is not None, "a resource whose access changes is in the state"
        assert previous.id is not None, "a recorded resource has an id"
        self._check_lock()
        deployed = previous.spec.as_dict()
        set_access(self._workspace, kind, previous.id, wanted=spec, deployed=deployed, owner=self._user)
        kept = {field: value for field, value in deployed.items() if field not in ("permissions", "grants")}
        self.keep(self.state.with_resource(replace(previous, spec=FrozenSpec.of(kept | access_of(spec)))))

    def _resolved(self, change: PlannedChange) -> dict[str, Any]:
        assert change.spec is not None, "only a deletion has no settings"
        ids = {each.key: each.id for each in self.state.resources if each.id is not None}
        specs = {each.key: each.spec for each in self._bundle.resources}
        spec = resolve_settings(change.kind, change.spec.as_dict(), ids, specs)
        missing = unresolved(spec)
        if missing is not None:
            raise OperationError("DEPLOY_REFERENCE_UNRESOLVED", key=change.key, reference=missing)
        return spec

    def _recheck(self, change: PlannedChange) -> tuple[PlannedChange, tuple[str, ...]]:
        """Return the change with the guard's verdict right before the write, and the gateways that the write stops."""
        deployed = self.state.get(change.key)
        observed, affected = observe_before_write(
            self._workspace, self._kinds, self._bundle, change, deployed, stopped=self._stopped
        )
        remote = observed.remotes[change.key]
        if remote is None or remote.modified != change.remote_modified:
            return replace(change, verdict=Verdict.HOLD, reason="it was changed after the plan was made"), ()
        resource = next((each for each in self._bundle.resources if each.key == change.key), None)
        now = self._workspace.clock.now()
        if resource is not None:
            spec = self._resolved(change)
            replanned = plan_resource(resource, deployed, observed, spec=spec, policy=self._policy, now=now)
        else:
            assert deployed is not None, "a resource that left the bundle is in the state"
            replanned = plan_deletion(deployed, observed, self._policy, now)
        return replanned, affected

    def _check_lock(self) -> None:
        if self._lock is not None:
            self._lock.check()


def apply_in_order(applier: Applier, changes: Sequence[PlannedChange]) -> tuple[PlannedChange, ...]:
    """Apply the changes of a plan and return each with its final verdict.

    Dependents of a held resource wait. The dependencies of a resource that stays are not deleted.
    """
    done: list[PlannedChange] = []
    held: dict[str, Verdict] = {}
    kept: dict[str, Verdict] = {}
    for change in changes:
        is_deletion = change.change_class is ChangeClass.DELETE
        blocking = kept.get(change.key) if is_deletion else _first(held, change.depends_on)
        if blocking is not None and change.verdict is Verdict.APPLY:
            reason = "a dependent resource is kept" if is_deletion else "a dependency is not deployed yet"
            done.append(replace(change, verdict=blocking, reason=reason))
        else:
            done.append(applier.apply(change))
        verdict = done[-1].verdict
        if is_deletion and verdict not in (Verdict.APPLY, Verdict.NOTHING):
            kept |= dict.fromkeys(change.depends_on, verdict)
        elif verdict in (Verdict.HOLD, Verdict.UNKNOWN, Verdict.QUEUE):
            held[change.key] = verdict
    return tuple(done)


def _first(verdicts: Mapping[str, Verdict], keys: Sequence[str]) -> Verdict | None:
    return next((verdicts[key] for key in keys if key in verdicts), None)


def _intended(change: PlannedChange, spec: dict[str, Any]) -> Deployed:
    return Deployed(
        key=change.key,
        kind=change.kind,
        id=None,
        spec=FrozenSpec.of(spec),
        depends_on=change.depends_on,
        prevent_destroy=change.prevent_destroy,
        secrets=change.secrets,
    )


def _without_access(spec: dict[str, Any], previous: Deployed | None) -> dict[str, Any]:
    """Return settings with the access that is in force; the new access is recorded after its own call."""
    in_force = {} if previous is None or previous.id is None else access_of(previous.spec.as_dict())
    return {key: value for key, value in spec.items() if key not in ("permissions", "grants")} | in_force
