"""`sluice bundle`: deploys that do not interrupt a running snapshot."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from framework.cli.bundle_call import BundleCall, bundle_options, guard_options, policy_of
from framework.cli.call import output_option
from framework.cli.command import RESULTS, SluiceCommand
from framework.cli.output import Output, say
from framework.cli.verbosity import verbose_option

_TABLE = click.option(
    "--table",
    envvar="SLUICE_DEPLOYMENTS_TABLE",
    metavar="C.S.T",
    help="Table that records deploys, in three parts.  [env: SLUICE_DEPLOYMENTS_TABLE]",
)
_COMMIT = click.option("--commit", default="", metavar="SHA", help="Deployed commit, for the table of deploys.")
_FORCE = click.option("--force-lock", is_flag=True, help="Replace the lock of a deploy that no longer runs.")


@click.group("bundle")
@verbose_option
def command() -> None:
    """Plan and deploy a bundle without interrupting a running snapshot."""


@command.command("render", cls=SluiceCommand)
@click.option("--check", is_flag=True, help="Write nothing; fail if a rendered file is out of date.")
@output_option
@verbose_option
@click.pass_context
def render(context: click.Context, /, *, check: bool, output: str) -> None:
    """Render bundles/specs with bundles/templates to bundles/rendered.

    Needs no workspace. Exit codes: 0 all files are up to date; with --check, 2 some files are out of date.
    """
    from framework.deploy.ingestion.rendered_files import rendered_files, write_rendered

    files = rendered_files(Path.cwd())
    reported = [file for file in files if file.state != "same"] if check else write_rendered(Path.cwd(), files)
    rows = [{"file": file.path.as_posix(), "state": file.state} for file in reported]
    results = Output(stream=context.meta[RESULTS], as_json=output == "json")
    if rows or results.as_json:
        results.table(("file", "state"), rows)
    else:
        results.text(f"{len(files)} rendered files are up to date.")
    raise click.exceptions.Exit(2 if check and rows else 0)


@command.command("validate", cls=SluiceCommand)
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@bundle_options
def validate(call: BundleCall, /, *, strict: bool) -> None:
    """Check all targets, or one: files, references, fields, modes, and risks for gateways.

    With -o json, prints the resolved configuration of one target; without --target, of the default one.

    Writes nothing; only lookup variables need a workspace. Exit codes: 0 valid, 2 errors found.
    """
    from framework.cli.bundle_output import print_findings, print_validation

    validation = call.validation()
    print_findings(validation.findings)
    print_validation(call.output, validation)
    raise click.exceptions.Exit(0 if validation.passes(strict=strict) else 2)


@command.command("spec", cls=SluiceCommand)
@click.argument("key", required=False)
@click.option("--file", metavar="FILE", help="File to write.  [default: pipeline.yml in the pipeline's root_path]")
@bundle_options
def spec(call: BundleCall, /, *, key: str | None, file: str | None) -> None:
    """Write the pipeline.yml of the pipeline KEY, to run it on this machine.

    KEY may be left out if one pipeline of the target has libraries. The file is not changed with the bundle later.
    """
    from framework.deploy.bundle.local_spec import local_spec

    made = local_spec(call.bundle(), key, file)
    made.path.write_text(made.text, encoding="utf-8")
    for name in made.left_out:
        say(f"{name} is left out: its value is secret, or only the workspace knows it.")
    shown = os.path.relpath(made.path)
    if call.output.as_json:
        call.output.json({"path": shown, "left_out": made.left_out})
    else:
        call.output.text(f"{shown}\n\nNext:\n  sluice validate --spec {shown}")


@command.command("plan", cls=SluiceCommand)
@guard_options
@bundle_options
def plan(call: BundleCall, /, **options: Any) -> None:
    """Print the changes that a deploy would make; write nothing.

    Exit codes: 0 no changes, 1 failed, 2 changes, 20 held, 22 refused, 23 the state of a gateway is unknown.
    """
    from framework.cli.bundle_output import print_changes

    made = call.deployer(policy=policy_of(options), lint=True).plan()
    code = made.exit_code()
    print_changes(call.output, made, made.changes, code)
    raise click.exceptions.Exit(int(code))


@command.command("deploy", cls=SluiceCommand)
@guard_options
@click.option("--queue", is_flag=True, help="Queue changes that would be held.")
@click.option("--queued", is_flag=True, help="Run the queued deploy if the guard allows it now.")
@click.option("--wait", type=click.FloatRange(min=0), metavar="SECONDS", help="Wait this long for snapshots to end.")
@_FORCE
@_TABLE
@_COMMIT
@bundle_options
def deploy(call: BundleCall, /, *, queue: bool, queued: bool, wait: float | None, **options: Any) -> None:
    """Apply all changes, except those that would restart a running snapshot.

    Exit codes: 0 deployed, 1 failed, 20 held, 21 queued, 22 refused, 23 the state of a gateway is unknown.
    """
    from framework.cli.bundle_output import print_changes

    deployer = call.deployer(policy=policy_of(options, queue=queue or queued), lint=True, build=True, **options)
    if queued:
        result = deployer.deploy_queued()
    else:
        result = deployer.deploy() if wait is None else deployer.wait_and_deploy(wait)
    print_changes(call.output, result.plan, result.done, result.exit_code)
    for warning in result.warnings:
        say(warning)
    raise click.exceptions.Exit(int(result.exit_code))


@command.command("status", cls=SluiceCommand)
@bundle_options
def status(call: BundleCall) -> None:
    """List the deployed resources of the target."""
    from framework.cli.bundle_output import print_state

    print_state(call.output, call.deployer().status())


@command.command("destroy", cls=SluiceCommand)
@guard_options
@_FORCE
@_TABLE
@_COMMIT
@click.confirmation_option(prompt="Delete all deployed resources and files of the target?")
@bundle_options
def destroy(call: BundleCall, /, **options: Any) -> None:
    """Delete all deployed resources and files of the target.

    Each pipeline, and each job that runs a gateway, needs --allow-recreate. If a resource has prevent_destroy, nothing
    is deleted.
    """
    from framework.cli.bundle_output import print_changes

    result = call.deployer(policy=policy_of(options), **options).destroy()
    print_changes(call.output, result.plan, result.done, result.exit_code)
    raise click.exceptions.Exit(int(result.exit_code))


@command.command("bind", cls=SluiceCommand)
@click.argument("key")
@click.argument("id")
@_FORCE
@bundle_options
def bind(call: BundleCall, /, *, key: str, id: str, force_lock: bool) -> None:
    """Adopt the existing resource ID as the resource KEY."""
    call.deployer(force_lock=force_lock).bind(key, id)
    call.output.text(f"{key} is {id} from now on.")


@command.command("accept", cls=SluiceCommand)
@click.argument("key")
@_FORCE
@_TABLE
@_COMMIT
@bundle_options
def accept(call: BundleCall, /, *, key: str, **options: Any) -> None:
    """Accept the current settings of the resource KEY as its baseline.

    Changes outside of the bundle, and fields that the service added, no longer count as drift. The resource is not
    written, and changes by the bundle remain changes.
    """
    from framework.cli.bundle_output import print_acceptance

    acceptance = call.deployer(**options).accept(key)
    print_acceptance(call.output, acceptance.change)
    for warning in acceptance.warnings:
        say(warning)


@command.command("guard", cls=SluiceCommand)
@guard_options
@bundle_options
def guard(call: BundleCall, /, **options: Any) -> None:
    """Check whether another tool, such as the Databricks CLI, may deploy the bundle now.

    Only gateways, and jobs that run them, are checked; the state of the Databricks CLI is used if there is one.

    Exit codes: 0 the deploy may run, 2 the bundle, the call or its configuration is invalid, 20 held, 22 refused,
    23 unknown: the state of a gateway, or which gateways the deploy would change, or the workspace does not respond.
    A difference in tags is held, because other tools write it.
    """
    from framework.cli.bundle_output import print_changes
    from framework.operations.deploying import failures_as_unknown

    with failures_as_unknown():
        gateways, plan, code = call.deployer(policy=policy_of(options)).guard()
    print_changes(call.output, replace(plan, uploads=(), removals=()), gateways, code)
    raise click.exceptions.Exit(int(code))
