"""`sluice doctor`: what is broken, what it means, and the ways out."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

import click

from framework.cli.call import Call, pipeline_options
from framework.cli.command import SluiceCommand
from framework.cli.output import say
from framework.foundation.errors import UserError

if TYPE_CHECKING:
    from framework.cli.output import Output
    from framework.operations.pipeline_port import PipelinePort
    from framework.recovery.doctor.finding import Examination, Finding, Repair


@click.command("doctor", cls=SluiceCommand)
@click.argument("flows", metavar="[FLOW]...", nargs=-1)
@click.option("--apply", "number", type=int, metavar="N", help="Do way out N of the one named flow.")
@click.option("--dry-run", is_flag=True, help="With --apply: print what it would do, and do nothing.")
@click.option("--expect", metavar="COMMAND", help="With --apply: refuse if way out N is not this command any more.")
@click.option("--reason", metavar="TEXT", default="", help="With --apply: why, for the event log.")
@click.option("--yes", is_flag=True, help="With --apply: do not ask for confirmation.")
@pipeline_options(result=True, parameters=True)
def command(
    call: Call, /, *, flows: tuple[str, ...], number: int | None, dry_run: bool, expect: str | None, reason: str,
    yes: bool,
) -> None:  # fmt: skip
    """Explain flows that are broken, stuck or behind, and repair them.

    Reads the event log, checkpoints and sources, and starts no stream. For each broken flow it prints what was seen,
    what it means, and the ways out with the rows that each loses, repeats and reads again. Exit code 1: something
    was found. --apply prints what it would change, asks, does it, and records who did it and why.
    """
    if number is None and (dry_run or expect or reason or yes):
        msg = "--dry-run, --expect, --reason and --yes belong to --apply, which is missing."
        raise click.UsageError(msg)
    if number is not None and len(flows) != 1:
        msg = "--apply needs the name of one flow."
        raise click.UsageError(msg)
    pipeline = call.pipeline(short=None if number is None else False)
    examination = pipeline.doctor.examine(flows)
    if number is not None and examination.findings:
        _check_expected(examination.findings[0], number, expect)
        _apply(call, pipeline, examination.findings[0], number, reason=reason, dry_run=dry_run, yes=yes)
        return
    _print(call.output, pipeline.name, examination)
    if examination.findings:
        raise click.exceptions.Exit(1)


def _check_expected(finding: Finding, number: int, expect: str | None) -> None:
    """Check that a way out is the one that was shown: findings change, and with them what a number means.

    Raises:
        UserError: DOCTOR_FINDING_CHANGED.
    """
    commands = [way.command for way in finding.ways]
    if expect is not None and commands[number - 1 : number] != [expect]:
        raise UserError("DOCTOR_FINDING_CHANGED", flow=finding.flow)


def _print(output: Output, pipeline: str, examination: Examination) -> None:
    from framework.views.doctor import examination_json, healthy_text

    if output.as_json:
        output.json(examination_json(pipeline, examination))
        return
    if not examination.findings:
        output.text(healthy_text(pipeline, examination))
    for place, finding in enumerate(examination.findings):
        _print_finding(output, finding, after="\n" if place else "")
    for waiting in examination.quarantined:
        output.text(str(waiting))


def _print_finding(output: Output, finding: Finding, after: str) -> None:
    from framework.views.doctor import finding_table, finding_title

    output.text(after + click.style(finding_title(finding), bold=True))
    output.text(output.formatted(finding_table(finding), heads=False, indent=2))


def _apply(
    call: Call, pipeline: PipelinePort, finding: Finding, number: int, *, reason: str, dry_run: bool, yes: bool
) -> None:
    """Print the effects of a way out, ask for confirmation, and apply it."""
    from framework.operations.repairing import preview_repair
    from framework.views.doctor import change_text, cost_text

    preview = preview_repair(pipeline, finding, number)
    way = preview.way
    lines = [
        f"{finding.flow}: {way.text}",
        f"  {way.command}",
        f"  {change_text(finding.position, preview.after)}",
        f"  {cost_text(way.cost)}",
    ]
    if dry_run:
        if call.output.as_json:
            call.output.json({"command": way.command, "change": lines[2].strip(), "cost": lines[3].strip()})
        else:
            call.output.text("\n".join(lines))
        return
    say("\n".join(lines))
    if not yes:
        if not sys.stdin.isatty():
            raise UserError("DOCTOR_NOT_CONFIRMED", flow=finding.flow, number=number)
        if not click.confirm("\nDo it?", err=True):
            raise click.exceptions.Exit(1)
    _report(call, _treat(call, pipeline, finding, number, reason))


def _treat(call: Call, pipeline: PipelinePort, finding: Finding, number: int, reason: str) -> Repair:
    from framework.cli.progress import open_progress
    from framework.cli.signals import run_stoppable

    started = threading.Event()
    with open_progress(sys.stderr, title=pipeline.name, clock=call.surroundings.clock) as progress:
        return run_stoppable(
            lambda: pipeline.doctor.treat(
                finding, number, reason=reason, observers=(lambda _: started.set(), progress)
            ),
            pipeline.stop,
            progress.say,
            has_started=started.is_set,
        )


def _report(call: Call, treatment: Repair) -> None:
    from framework.cli.updating import print_errors
    from framework.run.update.results import UpdateState
    from framework.views.doctor import change_text, treatment_json

    result = treatment.result
    if call.output.as_json:
        call.output.json(treatment_json(treatment))
    else:
        state = "The next update takes it." if result is None else f"update {result.update_id}: {result.state.value}"
        call.output.text(f"{treatment.finding.flow}: {change_text(treatment.before, treatment.after)}\n{state}")
    if result is not None:
        print_errors(result)
        if result.state is not UpdateState.COMPLETED:
            raise click.exceptions.Exit(1)
