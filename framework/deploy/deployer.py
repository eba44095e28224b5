"""Deploys of one target: plan without a lock; if there is anything to do, lock, plan again and apply."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from databricks.sdk.errors.base import DatabricksError

from framework.deploy.api.workspace import Workspace
from framework.deploy.applier import Applier, apply_in_order
from framework.deploy.bundle.documents.bundle import Bundle, Resource
from framework.deploy.bundle.packages import check_packages, with_packages
from framework.deploy.gateways.cli_state import StateUnknown
from framework.deploy.gateways.external_state import external_state, state_unknown
from framework.deploy.history import Deployment, check_table, record_deployment
from framework.deploy.observe import observe, with_unrecorded_creates
from framework.deploy.plan.acceptance import Acceptance, accept_resource
from framework.deploy.plan.deploy_plan import DeployPlan, PlannedChange, check_keys, judge_gateways, skip_if_refused
from framework.deploy.plan.planner import make_plan
from framework.deploy.plan.policy import ExitCode, Policy, Verdict, exit_code
from framework.deploy.state.files import hash_files, is_below, upload_files, workspace_path
from framework.deploy.state.lock import DeployLock, leave_queue, put_in_queue, queued_fingerprint
from framework.deploy.state.resource_api import remote_kinds
from framework.deploy.state.state import STATE_FILE, Deployed, DeployState, new_state, read_state, write_state
from framework.foundation.errors import OperationError, UserError
from framework.foundation.nearest import nearest_hint

_POLL_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployResult:
    """Result of a deploy; `done` holds each change with its final verdict."""

    plan: DeployPlan
    done: tuple[PlannedChange, ...]
    exit_code: ExitCode
    warnings: tuple[str, ...] = ()


class Deployer:
    """Plans and deploys one target of a bundle.

    Args:
        user: user who deploys.
        table: three-part name of the deployments table; None to record nothing.
        commit: commit of the bundle's repository.
    """

    def __init__(
        self,
        workspace: Workspace,
        bundle: Bundle,
        *,
        user: str,
        policy: Policy | None = None,
        table: str | None = None,
        commit: str = "",
        force_lock: bool = False,
    ) -> None:
        self._workspace = workspace
        self._loaded = bundle
        self._bundle = with_packages(bundle)
        self._user = user
        self._policy = policy or Policy()
        self._table = table
        self._commit = commit
        self._force_lock = force_lock
        self._kinds = remote_kinds(workspace)
        self._declared = tuple(resource.key for resource in bundle.resources)
        self._keys_are_checked = False

    def plan(self) -> DeployPlan:
        """Plan a deploy; write nothing."""
        return self._plan(self._recorded_state()[0])

    def deploy(self) -> DeployResult:
        """Plan and apply; an empty plan makes no write.

        Raises:
            UserError: BUNDLE_PACKAGE_MISSING, before any call.
            OperationError: a call failed; the next deploy continues where this one stopped.
        """
        return self._deploy(expected=None)

    def deploy_queued(self) -> DeployResult:
        """Run the queued deploy if its plan is still the same; it leaves the queue once no change waits.

        Raises:
            OperationError: DEPLOY_QUEUE_EMPTY, DEPLOY_QUEUE_STALE.
        """
        expected = queued_fingerprint(self._workspace, self._bundle.state_path)
        if expected is None:
            raise OperationError("DEPLOY_QUEUE_EMPTY", target=self._bundle.target)
        result = self._deploy(expected=expected)
        if not result.plan.waits and result.exit_code is ExitCode.CLEAN:
            leave_queue(self._workspace, self._bundle.state_path)
        return result

    def wait_and_deploy(self, seconds: float) -> DeployResult:
        """Deploy, and repeat each minute while a change waits, for at most `seconds`."""
        result = self._deploy(expected=None)
        ends = self._workspace.clock.monotonic() + seconds
        while result.plan.waits and self._workspace.clock.monotonic() < ends:
            self._workspace.clock.sleep(_POLL_SECONDS)
            result = self._deploy(expected=None)
        return result

    def bind(self, key: str, id: str) -> None:
        """Adopt an existing resource under a key; its settings stay until the next deploy.

        A key that has left the bundle gives its resource, with its protection, to the new one.

        Raises:
            UserError: DEPLOY_RESOURCE_UNKNOWN, DEPLOY_BIND_MISSING, DEPLOY_BIND_TAKEN.
        """
        resource = self._declared_resource(key)
        if self._kinds[resource.kind].read(id) is None:
            raise UserError("DEPLOY_BIND_MISSING", kind=resource.kind, id=id)
        with self._locked():
            state = self._state() or new_state()
            taken = next((each for each in state.resources if (each.kind, each.id) == (resource.kind, id)), None)
            if taken is not None and taken.key != key and taken.key in self._declared:
                raise UserError("DEPLOY_BIND_TAKEN", id=id, other=taken.key, key=key)
            previous_entries = [each for each in (state.get(key), taken) if each is not None]
            state = state if taken is None else state.without(taken.key)
            adopted = Deployed(
                key=key,
                kind=resource.kind,
                id=id,
                spec=resource.spec,
                depends_on=resource.depends_on,
                prevent_destroy=resource.prevent_destroy or any(each.prevent_destroy for each in previous_entries),
                secrets=resource.secrets,
            )
            write_state(self._workspace, self._bundle.state_path, state.with_resource(adopted))

    def accept(self, key: str) -> Acceptance:
        """Make the current settings of a deployed resource its baseline; no call writes to the resource.

        Raises:
            UserError: DEPLOY_RESOURCE_UNKNOWN, DEPLOY_NOT_BOUND, DEPLOY_BIND_MISSING, or an error of `check_table`.
        """
        self._declared_resource(key)
        if self._table is not None:
            check_table(self._workspace, self._table)
        with self._locked():
            state = self._state() or new_state()
            acceptance = accept_resource(self._kinds, self._bundle, state, key, now=self._workspace.clock.now())
            write_state(self._workspace, self._bundle.state_path, acceptance.state)
            return replace(acceptance, warnings=self._record_deployment((acceptance.change,)))

    def guard(self) -> tuple[tuple[PlannedChange, ...], DeployPlan, ExitCode]:
        """Judge a deploy by another tool: return its gateways, its plan and its exit code; write nothing.

        Raises:
            StateUnknown: the gateways that the deploy would reach are unknown.
        """
        try:
            plan = self._guarded_plan(external_state(self._workspace, self._kinds, self._bundle))
        except StateUnknown:
            raise
        except (OperationError, DatabricksError) as error:
            raise state_unknown(error) from error
        gateways, code = judge_gateways(plan)
        return gateways, plan, code

    def destroy(self) -> DeployResult:
        """Delete all deployed resources and files of the target; delete nothing if any deletion is refused."""
        empty = replace(self._loaded, resources=(), sync=())
        deployer = Deployer(
            self._workspace,
            empty,
            user=self._user,
            policy=self._policy,
            table=self._table,
            commit=self._commit,
            force_lock=self._force_lock,
        )
        deployer._declared = self._declared
        return deployer.deploy()

    def status(self) -> DeployState | None:
        """Return the target's state; None if the target was never deployed."""
        return self._state()

    def _declared_resource(self, key: str) -> Resource:
        resource = next((each for each in self._bundle.resources if each.key == key), None)
        if resource is None:
            hint = nearest_hint(key, (each.key for each in self._bundle.resources))
            raise UserError("DEPLOY_RESOURCE_UNKNOWN", key=key, target=self._bundle.target, hint=hint)
        return resource

    def _deploy(self, expected: str | None) -> DeployResult:
        check_packages(self._loaded)
        if self._table is not None:
            check_table(self._workspace, self._table)
        state, has_unrecorded = self._recorded_state()
        plan = self._plan(state)
        self._check_fingerprint(plan, expected)
        if plan.is_refused or not (plan.acts or has_unrecorded):
            return self._result(plan, plan.changes)
        with self._locked() as lock:
            state, has_unrecorded = self._recorded_state()
            plan = self._plan(state)
            self._check_fingerprint(plan, expected)
            if plan.is_refused or not (plan.acts or has_unrecorded):
                return self._result(plan, plan.changes)
            if has_unrecorded:
                write_state(self._workspace, self._bundle.state_path, state)
            done = self._apply(plan, state, lock)
            warnings = self._record_deployment(done)
        return self._result(plan, done, warnings)

    def _apply(self, plan: DeployPlan, state: DeployState, lock: DeployLock | None) -> tuple[PlannedChange, ...]:
        applier = Applier(
            self._workspace,
            kinds=self._kinds,
            bundle=self._bundle,
            state=state,
            lock=lock,
            policy=self._policy,
            user=self._user,
        )
        if plan.uploads or plan.removals:
            root, folder, packages = self._bundle.root, self._bundle.file_path, dict(self._bundle.packages)
            upload_files(self._workspace, root, folder, plan.uploads, packages)
            for path in (workspace_path(folder, name) for name in plan.removals):
                if is_below(path, (folder, self._bundle.artifact_path)):
                    self._workspace.delete_file(path)
            applier.keep(state.with_files(plan.files))
        return apply_in_order(applier, plan.changes)

    def _result(
        self, plan: DeployPlan, done: tuple[PlannedChange, ...], warnings: tuple[str, ...] = ()
    ) -> DeployResult:
        """Return the result; queue a deploy with queued changes, with the fingerprint of its remaining plan."""
        code = exit_code((change.verdict for change in done), applied=True)
        if any(change.verdict is Verdict.QUEUE for change in done) and code is not ExitCode.REFUSED:
            folder = self._bundle.state_path
            rest = self.plan().fingerprint()
            if queued_fingerprint(self._workspace, folder) != rest:
                put_in_queue(self._workspace, folder, rest, self._user)
        return DeployResult(plan=plan, done=done, exit_code=code, warnings=warnings)

    def _check_fingerprint(self, plan: DeployPlan, expected: str | None) -> None:
        if expected is not None and plan.fingerprint() != expected:
            leave_queue(self._workspace, self._bundle.state_path)
            raise OperationError("DEPLOY_QUEUE_STALE", target=self._bundle.target)

    def _record_deployment(self, done: tuple[PlannedChange, ...]) -> tuple[str, ...]:
        """Write to the deployments table; return a failure as a warning, because the deploy itself is done."""
        if self._table is None:
            return ()
        deployment = Deployment(
            table=self._table,
            user=self._user,
            bundle=self._bundle.name,
            target=self._bundle.target,
            commit=self._commit,
        )
        try:
            record_deployment(self._workspace, deployment, done)
        except OperationError as error:
            return (error.render(),)
        return ()

    def _plan(self, state: DeployState) -> DeployPlan:
        return skip_if_refused(self._guarded_plan(state))

    def _guarded_plan(self, state: DeployState) -> DeployPlan:
        """Return the plan with the guard's verdict on each resource, independent of the other verdicts."""
        observed = observe(self._workspace, self._kinds, self._bundle, state, self._policy)
        files = hash_files(self._bundle.root, self._bundle.sync, self._bundle.packages)
        plan = make_plan(
            self._bundle, state, observed, files=files, policy=self._policy, now=self._workspace.clock.now()
        )
        if not self._keys_are_checked:
            # Checked once: a resource that this deploy deletes is in no later plan.
            check_keys(plan, self._policy, declared=self._declared)
            self._keys_are_checked = True
        return plan

    def _state(self) -> DeployState | None:
        return read_state(self._workspace, self._bundle.state_path)

    def _recorded_state(self) -> tuple[DeployState, bool]:
        """Return the state, completed with unrecorded creations, and whether there are any."""
        state = self._state() or new_state()
        known = with_unrecorded_creates(self._kinds, state, f"{self._bundle.state_path}/{STATE_FILE}")
        return known, known is not state

    @contextmanager
    def _locked(self) -> Iterator[DeployLock | None]:
        """Hold the target's lock while the block runs; without a lock if the bundle disables it, as in development."""
        self._workspace.make_folder(self._bundle.state_path)
        if not self._bundle.locks:
            yield None
            return
        lock = DeployLock(self._workspace, self._bundle.state_path, self._user)
        lock.acquire(force=self._force_lock)
        try:
            yield lock
        finally:
            lock.release()
