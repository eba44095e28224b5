"""One call of a bundle command: its target, its workspace, the guard's policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import time
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

import click

from framework.cli.call import Surroundings, output_option
from framework.cli.command import RESULTS
from framework.cli.output import Output, say
from framework.cli.verbosity import verbose_option
from framework.foundation.errors import UserError

if TYPE_CHECKING:
    from framework.deploy.bundle.documents.bundle import Bundle
    from framework.deploy.deployer import Deployer
    from framework.deploy.plan.policy import Policy
    from framework.operations.deploying import BundleTarget, BundleValidation

_Rest = ParamSpec("_Rest")


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleCall:
    """Common options of one call of a bundle command."""

    target: BundleTarget
    output: Output

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

        `lint` prints the findings and rejects errors among them; `build` then builds the artifacts.
        """
        from framework.cli.bundle_output import print_findings

        loaded = self.target.load()
        if lint:
            print_findings(loaded.bundle.findings)
            loaded.check()
        if build:
            loaded.build()
        return loaded.deployer(policy=policy, table=table, commit=commit, force_lock=force_lock)

    def validation(self) -> BundleValidation:
        """Load and check the target, or all targets; JSON output has one configuration, of the default target."""
        found = self.target.validate(only_one=self.output.as_json)
        _mention_placeholder(found.user)
        return found

    def bundle(self) -> Bundle:
        """Load the target without changing a workspace."""
        found, user = self.target.bundle()
        _mention_placeholder(user)
        return found


def _mention_placeholder(user: str) -> None:
    from framework.operations.deploying import PLACEHOLDER_USER

    if user == PLACEHOLDER_USER:
        say(f"No workspace is named: checked as {user} would deploy it.")


def bundle_options(function: Callable[Concatenate[BundleCall, _Rest], None]) -> Callable[..., None]:
    """Add the target and workspace options to a command, and pass them to its function as a `BundleCall`."""

    @output_option
    @verbose_option
    @click.option("--profile", metavar="P", help="Profile of the workspace.  [default: the environment's]")
    @click.option("--var", multiple=True, metavar="K=V", help="Value of a variable; repeatable.")
    @click.option("--target", "-t", metavar="T", help="Target of the bundle.  [default: the default target]")
    @click.pass_context
    @wraps(function)
    def run(context: click.Context, /, **options: Any) -> None:
        from framework.operations.deploying import BundleTarget

        target = BundleTarget(
            target=options.pop("target"),
            profile=options.pop("profile"),
            variables=_variables(options.pop("var")),
            surroundings=(context.find_object(Surroundings) or Surroundings()).bundles,
        )
        output = Output(stream=context.meta[RESULTS], as_json=options.pop("output") == "json")
        call = BundleCall(target=target, output=output)
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
    """Return the policy from the options, and remove its options from `options`.

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


def _pair(option: str, text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not sign or not key.strip():
        raise UserError("DEPLOY_OPTION_INVALID", option=option, text=text, expected="KEY=VALUE")
    return key.strip(), value
