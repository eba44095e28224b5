"""One call of a bundle command: its target, its workspace, the guard's policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import time
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

import click

from framework.cli.bundle_surroundings import BundleSurroundings
from framework.cli.call import Surroundings, output_option
from framework.cli.command import RESULTS
from framework.cli.output import Output, say
from framework.cli.verbosity import verbose_option
from framework.foundation.errors import OperationError, UserError

if TYPE_CHECKING:
    from framework.cli.bundle_output import Validation
    from framework.deploy.api.workspace import Workspace
    from framework.deploy.bundle.documents.bundle import Bundle
    from framework.deploy.deployer import Deployer
    from framework.deploy.plan.policy import Policy

_Rest = ParamSpec("_Rest")
_PLACEHOLDER_USER = "somebody@example.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleCall:
    """Common options of one call of a bundle command."""

    target: str | None
    profile: str | None
    variables: tuple[tuple[str, str], ...]
    output: Output
    surroundings: BundleSurroundings

    def workspace(self) -> Workspace:
        """Return the workspace of the profile or the environment."""
        from framework.deploy.api.workspace import Workspace

        return Workspace(self.surroundings.configure(self.profile), clock=self.surroundings.clock)

    def user(self, workspace: Workspace) -> str:
        """Return the name of the current user of a workspace."""
        return str(workspace.read("/api/2.0/preview/scim/v2/Me")["userName"])

    def deployer(
        self,
        *,
        policy: Policy | None = None,
        table: str | None = None,
        commit: str = "",
        force_lock: bool = False,
        lint: bool = False,
        build: bool = False,
    ) -> Deployer:
        """Load the target and return its deployer.

        With `lint`, the findings are printed, and errors among them are refused; then `build` builds the artifacts.
        """
        from framework.cli.bundle_output import print_findings, refuse_errors
        from framework.deploy.deployer import Deployer

        workspace = self.workspace()
        user = self.user(workspace)
        bundle = self._load(self.target, user, workspace)
        _check_host(bundle, workspace)
        if lint:
            print_findings(bundle.findings)
            refuse_errors(bundle.findings, bundle.target)
        if build:
            self.surroundings.build(bundle)
        return Deployer(workspace, bundle, user=user, policy=policy, table=table, commit=commit, force_lock=force_lock)

    def validation(self) -> Validation:
        """Load and check the target; without a workspace, as a placeholder user.

        Without a target, all targets are checked; in JSON, which has the configuration of one, the default target.
        """
        from framework.cli.bundle_output import Validation, findings_of
        from framework.deploy.bundle.documents.findings import of_error

        user, workspace = self._user_or_placeholder()
        bundles, findings = [], []
        is_one = self.target is not None or self.output.as_json
        for target in (self.target,) if is_one else self.surroundings.list_targets():
            try:
                bundles.append(self._load(target, user, workspace))
            except UserError as error:
                findings.append(of_error(error))
            else:
                findings += findings_of(bundles[-1])
        return Validation(bundles=tuple(bundles), findings=tuple(dict.fromkeys(findings)))

    def bundle(self) -> Bundle:
        """Load the target without changing a workspace; without one, as a placeholder user."""
        user, workspace = self._user_or_placeholder()
        return self._load(self.target, user, workspace)

    def _load(self, target: str | None, user: str, workspace: Workspace | None) -> Bundle:
        from framework.deploy.api.lookups import workspace_lookup

        look_up = None if workspace is None else workspace_lookup(workspace)
        return self.surroundings.load(target=target, variables=dict(self.variables), user=user, look_up=look_up)

    def _user_or_placeholder(self) -> tuple[str, Workspace | None]:
        try:
            workspace = self.workspace()
            return self.user(workspace), workspace
        except UserError as error:
            if error.condition != "WORKSPACE_NOT_CONFIGURED":
                raise
            say(f"No workspace is named: checked as {_PLACEHOLDER_USER} would deploy it.")
            return _PLACEHOLDER_USER, None


@contextmanager
def failures_as_unknown() -> Iterator[None]:
    """Convert a failed call in the block to an unknown state, exit code 23: without a verdict no deploy may run.

    Raises:
        StateUnknown: a call failed: the workspace does not respond, or refuses the credentials.
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


def bundle_options(function: Callable[Concatenate[BundleCall, _Rest], None]) -> Callable[..., None]:
    """Add the options about target and workspace to a command, and pass them to its function as a `BundleCall`."""

    @output_option
    @verbose_option
    @click.option("--profile", metavar="P", help="Profile of the workspace.  [default: the environment's]")
    @click.option("--var", multiple=True, metavar="K=V", help="Value of a variable; repeatable.")
    @click.option("--target", "-t", metavar="T", help="Target of the bundle.  [default: the default target]")
    @click.pass_context
    @wraps(function)
    def run(context: click.Context, /, **options: Any) -> None:
        call = BundleCall(
            target=options.pop("target"),
            profile=options.pop("profile"),
            variables=_variables(options.pop("var")),
            output=Output(stream=context.meta[RESULTS], as_json=options.pop("output") == "json"),
            surroundings=(context.find_object(Surroundings) or Surroundings()).bundles,
        )
        function(call, **options)  # type: ignore[call-arg]

    return run


def guard_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of the guard's policy to a command; `policy_of` reads them."""
    options = (
        click.option(
            "--allow-recreate",
            multiple=True,
            metavar="KEY",
            help="Allow this resource to be recreated or deleted; repeatable.",
        ),
        click.option(
            "--override",
            multiple=True,
            metavar="KEY=REASON",
            help="Allow the restart of this gateway in any state; the reason is recorded. Repeatable.",
        ),
        click.option(
            "--write-tags",
            multiple=True,
            metavar="KEY=REASON",
            help="Write the deferred tags of this gateway if no snapshot runs; the reason is recorded.",
        ),
        click.option(
            "--window", metavar="HH:MM-HH:MM", help="Hours in UTC in which a gateway may restart if no snapshot runs."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def policy_of(options: dict[str, Any], *, queue: bool = False) -> Policy:
    """Return the policy in the options, and remove them from `options`.

    Raises:
        UserError: DEPLOY_OVERRIDE_INVALID, DEPLOY_WRITE_TAGS_INVALID, DEPLOY_OPTION_INVALID.
    """
    from framework.deploy.plan.policy import Policy

    return Policy(
        allow_recreate=frozenset(options.pop("allow_recreate")),
        overrides=_reasons(options.pop("override"), "DEPLOY_OVERRIDE_INVALID"),
        tag_writes=_reasons(options.pop("write_tags"), "DEPLOY_WRITE_TAGS_INVALID"),
        queue=queue,
        window=_window(options.pop("window")),
    )


def _reasons(texts: Iterable[str], condition: str) -> tuple[tuple[str, str], ...]:
    found = []
    for text in texts:
        key, _, reason = text.partition("=")
        if not key.strip() or not reason.strip():
            raise UserError(condition, text=text)
        found.append((key.strip(), reason.strip()))
    return tuple(found)


def _window(text: str | None) -> Any:
    from framework.deploy.plan.policy import Window

    if text is None:
        return None
    begins, _, ends = text.partition("-")
    try:
        return Window(begins=time.fromisoformat(begins), ends=time.fromisoformat(ends))
    except ValueError:
        raise UserError("DEPLOY_OPTION_INVALID", option="--window", text=text, expected="HH:MM-HH:MM") from None


def _variables(texts: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    pairs = tuple(_pair("--var", text) for text in texts)
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise UserError("BUNDLE_VARIABLE_TWICE", name=name)
    return pairs


def _check_host(bundle: Bundle, workspace: Workspace) -> None:
    """Check that the target's `workspace.host`, if set, is the host of the workspace."""
    wanted = bundle.configuration.as_dict().get("workspace", {}).get("host")
    if wanted and _host(wanted) != _host(workspace.host):
        raise UserError("WORKSPACE_OTHER_HOST", target=bundle.target, wanted=wanted, actual=workspace.host)


def _host(address: str) -> str:
    return address.partition("://")[2].rstrip("/").lower() or address.rstrip("/").lower()


def _pair(option: str, text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not sign or not key.strip():
        raise UserError("DEPLOY_OPTION_INVALID", option=option, text=text, expected="KEY=VALUE")
    return key.strip(), value
