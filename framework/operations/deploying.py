"""A target of a bundle: loads and checks it for a user of its workspace, and prepares its deploy.

Slow imports happen where they are used, because the commands that render files need no workspace.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from framework.deploy.bundle.documents.findings import BundleFinding, Severity, of_error
from framework.foundation.errors import OperationError, UserError
from framework.operations.bundle_port import BundlePort

if TYPE_CHECKING:
    from framework.deploy.api.workspace import Workspace
    from framework.deploy.bundle.documents.bundle import Bundle
    from framework.deploy.deployer import Deployer
    from framework.deploy.plan.policy import Policy

PLACEHOLDER_USER = "somebody@example.com"
"""The user name for checking a bundle without a workspace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleValidation:
    """The targets that could be loaded, and the findings of all targets.

    Args:
        user: the user for whom they were loaded; `PLACEHOLDER_USER` without a workspace.
    """

    bundles: tuple[Bundle, ...]
    findings: tuple[BundleFinding, ...]
    user: str

    @property
    def is_sound(self) -> bool:
        """Whether no finding is an error."""
        return all(finding.severity is not Severity.ERROR for finding in self.findings)

    def passes(self, *, strict: bool) -> bool:
        """Return whether there are no errors, and with `strict` no warnings."""
        return not self.findings if strict else self.is_sound


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedTarget:
    """A target loaded for a user of its workspace."""

    workspace: Workspace
    user: str
    bundle: Bundle
    surroundings: BundlePort

    def check(self) -> None:
        """Check that the findings of the bundle contain no error.

        Raises:
            UserError: BUNDLE_LINT.
        """
        count = sum(finding.severity is Severity.ERROR for finding in self.bundle.findings)
        if count:
            plural = "" if count == 1 else "s"
            raise UserError("BUNDLE_LINT", target=self.bundle.target, count=count, plural=plural)

    def build(self) -> None:
        """Build the artifacts of the bundle."""
        self.surroundings.build(self.bundle)

    def deployer(
        self, *, policy: Policy | None = None, table: str | None = None, commit: str = "", force_lock: bool = False
    ) -> Deployer:
        """Return the deployer of the target; the arguments are those of `Deployer`."""
        from framework.deploy.deployer import Deployer

        return Deployer(
            self.workspace,
            self.bundle,
            user=self.user,
            policy=policy,
            table=table,
            commit=commit,
            force_lock=force_lock,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleTarget:
    """A target of the bundle in the working folder.

    Args:
        target: its name; None for the default target.
        profile: the profile of its workspace; None to use the environment.
        variables: values of the bundle's variables.
        surroundings: loads bundles and configures workspaces.
    """

    target: str | None
    profile: str | None
    variables: tuple[tuple[str, str], ...]
    surroundings: BundlePort

    def workspace(self) -> Workspace:
        """Return the workspace of the profile or the environment.

        Raises:
            UserError: WORKSPACE_NOT_CONFIGURED.
        """
        from framework.deploy.api.workspace import Workspace

        return Workspace(self.surroundings.configure(self.profile), clock=self.surroundings.clock)

    def load(self) -> LoadedTarget:
        """Load the target for the user of its workspace.

        Raises:
            UserError: the bundle is invalid, or its target belongs to another workspace.
        """
        workspace = self.workspace()
        user = user_of(workspace)
        bundle = self._load(self.target, user, workspace)
        _check_host(bundle, workspace)
        return LoadedTarget(workspace=workspace, user=user, bundle=bundle, surroundings=self.surroundings)

    def bundle(self) -> tuple[Bundle, str]:
        """Load the target without changing a workspace; return it with the user, a placeholder without a workspace."""
        user, workspace = self._user_or_placeholder()
        return self._load(self.target, user, workspace), user

    def validate(self, *, only_one: bool = False) -> BundleValidation:
        """Load and check the target; without a workspace, use a placeholder user.

        Args:
            only_one: whether to check only the default target, not all targets, if no target is given.
        """
        user, workspace = self._user_or_placeholder()
        bundles, findings = [], []
        is_one = self.target is not None or only_one
        for target in (self.target,) if is_one else self.surroundings.list_targets():
            try:
                bundles.append(self._load(target, user, workspace))
            except UserError as error:
                findings.append(of_error(error))
            else:
                findings += findings_of(bundles[-1])
        return BundleValidation(bundles=tuple(bundles), findings=tuple(dict.fromkeys(findings)), user=user)

    def _load(self, target: str | None, user: str, workspace: Workspace | None) -> Bundle:
        from framework.deploy.api.lookups import workspace_lookup

        look_up = None if workspace is None else workspace_lookup(workspace)
        return self.surroundings.load(target=target, variables=dict(self.variables), user=user, look_up=look_up)

    def _user_or_placeholder(self) -> tuple[str, Workspace | None]:
        try:
            workspace = self.workspace()
            return user_of(workspace), workspace
        except UserError as error:
            if error.condition != "WORKSPACE_NOT_CONFIGURED":
                raise
            return PLACEHOLDER_USER, None


def user_of(workspace: Workspace) -> str:
    """Return the name of the current user of a workspace."""
    return str(workspace.read("/api/2.0/preview/scim/v2/Me")["userName"])


def findings_of(bundle: Bundle) -> tuple[BundleFinding, ...]:
    """Return the findings of a loaded target, and the errors of modules that can't run natively on Databricks."""
    from framework.deploy.bundle.pipeline_modules import native_faults

    native = (of_error(fault) for fault in native_faults(bundle))
    return (*bundle.findings, *native)


@contextmanager
def failures_as_unknown() -> Iterator[None]:
    """Convert a failed call in the block to an unknown state, exit code 23: without a verdict, no deploy may run.

    Raises:
        StateUnknown: a call failed, because the workspace does not respond or rejects the credentials.
    """
    from databricks.sdk.errors.base import DatabricksError

    from framework.deploy.gateways.cli_state import StateUnknown
    from framework.deploy.gateways.external_state import state_unknown

    try:
        yield
    except StateUnknown:
        raise
    except (OperationError, DatabricksError, OSError) as error:
        raise state_unknown(error) from error


def _check_host(bundle: Bundle, workspace: Workspace) -> None:
    """Check that the target's `workspace.host`, if set, is the host of the workspace."""
    wanted = bundle.configuration.as_dict().get("workspace", {}).get("host")
    if wanted and _host(wanted) != _host(workspace.host):
        raise UserError("WORKSPACE_OTHER_HOST", target=bundle.target, wanted=wanted, actual=workspace.host)


def _host(address: str) -> str:
    return address.partition("://")[2].rstrip("/").lower() or address.rstrip("/").lower()
