"""One call of a command about a bundle: its target, its workspace, what the guard may do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import time
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

import click

from framework.cli.bundle_surroundings import BundleSurroundings
from framework.cli.call import Surroundings, output_option, verbose_option
from framework.cli.command import RESULTS, VERBOSE
from framework.cli.output import Output
from framework.foundation.errors import UserError

if TYPE_CHECKING:
    from framework.deploy.decisions import Policy
    from framework.deploy.deployer import Deployer
    from framework.deploy.workspace import Workspace

_Rest = ParamSpec("_Rest")


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleCall:
    """The common options of one call about a bundle."""

    target: str | None
    profile: str | None
    variables: tuple[tuple[str, str], ...]
    output: Output
    surroundings: BundleSurroundings

    def workspace(self) -> Workspace:
        """The workspace that the profile or the environment names."""
        from framework.deploy.workspace import Workspace

        return Workspace(self.surroundings.configure(self.profile), clock=self.surroundings.clock)

    def user(self, workspace: Workspace) -> str:
        """Who we are there."""
        return str(workspace.read("/api/2.0/preview/scim/v2/Me")["userName"])

    def deployer(
        self,
        *,
        policy: Policy | None = None,
        table: str | None = None,
        commit: str = "",
        force_lock: bool = False,
        build: bool = False,
    ) -> Deployer:
        """Plans and deploys of the target; `build` makes its artifacts first."""
        from framework.deploy.deployer import Deployer
        from framework.deploy.lookups import workspace_lookup

        workspace = self.workspace()
        user = self.user(workspace)
        bundle = self.surroundings.load(
            target=self.target, variables=dict(self.variables), user=user, look_up=workspace_lookup(workspace)
        )
        if build:
            self.surroundings.build(bundle)
        return Deployer(workspace, bundle, user=user, policy=policy, table=table, commit=commit, force_lock=force_lock)


def bundle_options(function: Callable[Concatenate[BundleCall, _Rest], None]) -> Callable[..., None]:
    """Give a command the options about target and workspace, and its function a `BundleCall` that holds them."""

    @output_option
    @verbose_option
    @click.option("--profile", metavar="P", help="The profile of the workspace.  [default: the environment's]")
    @click.option("--var", multiple=True, metavar="K=V", help="The value of a variable; repeatable.")
    @click.option("--target", "-t", metavar="T", help="The bundle's target.  [default: the default one]")
    @click.pass_context
    @wraps(function)
    def run(context: click.Context, /, **options: Any) -> None:
        context.meta[VERBOSE] = options.pop("verbose")
        call = BundleCall(
            target=options.pop("target"),
            profile=options.pop("profile"),
            variables=tuple(_pair("--var", text) for text in options.pop("var")),
            output=Output(stream=context.meta[RESULTS], as_json=options.pop("output") == "json"),
            surroundings=(context.find_object(Surroundings) or Surroundings()).bundles,
        )
        function(call, **options)  # type: ignore[call-arg]

    return run


def guard_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add what the guard may do to a command, which reads it with `policy_of`."""
    options = (
        click.option(
            "--allow-recreate",
            multiple=True,
            metavar="KEY",
            help="This resource may be recreated or deleted; repeatable.",
        ),
        click.option(
            "--override",
            multiple=True,
            metavar="KEY=REASON",
            help="Restart this gateway whatever it does; the reason goes on record. Repeatable.",
        ),
        click.option("--window", metavar="HH:MM-HH:MM", help="When, in UTC, a gateway without a snapshot may restart."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def policy_of(options: dict[str, Any], *, queue: bool = False) -> Policy:
    """What the options allow; takes them out of `options`.

    Raises:
        UserError: DEPLOY_OVERRIDE_INVALID, DEPLOY_OPTION_INVALID.
    """
    from framework.deploy.decisions import Policy

    overrides = []
    for text in options.pop("override"):
        key, _, reason = text.partition("=")
        if not key.strip() or not reason.strip():
            raise UserError("DEPLOY_OVERRIDE_INVALID", text=text)
        overrides.append((key.strip(), reason.strip()))
    return Policy(
        allow_recreate=frozenset(options.pop("allow_recreate")),
        overrides=tuple(overrides),
        queue=queue,
        window=_window(options.pop("window")),
    )


def _window(text: str | None) -> Any:
    from framework.deploy.decisions import Window

    if text is None:
        return None
    begins, _, ends = text.partition("-")
    try:
        return Window(begins=time.fromisoformat(begins), ends=time.fromisoformat(ends))
    except ValueError:
        raise UserError("DEPLOY_OPTION_INVALID", option="--window", text=text, expected="HH:MM-HH:MM") from None


def _pair(option: str, text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not sign or not key.strip():
        raise UserError("DEPLOY_OPTION_INVALID", option=option, text=text, expected="KEY=VALUE")
    return key.strip(), value
