"""`sluice test`: the tests of a project, and what they cover."""

from __future__ import annotations

from pathlib import Path

import click

from framework.cli.call import Call, pipeline_options
from framework.cli.command import SluiceCommand


@click.command("test", cls=SluiceCommand, context_settings={"ignore_unknown_options": True})
@click.argument("paths", nargs=-1, type=click.UNPROCESSED)
@click.option("-k", "expression", metavar="EXPR", help="Only tests whose names match, such as 'orders and not late'.")
@click.option("-m", "markers", metavar="EXPR", help="Only tests whose markers match.")
@click.option("-n", "workers", metavar="N", help="Run in N processes, or `auto`; needs pytest-xdist.")
@pipeline_options(result=True)
def command(
    call: Call, /, *, paths: tuple[str, ...], expression: str | None, markers: str | None, workers: str | None
) -> None:
    """Run the tests of the project, and print what they cover.

    Runs pytest on PATHS with the fixtures of docs/testing.md, and then names the datasets whose rows no test compares,
    the flows that never ran, and the expectations that never failed. Options that are not listed here are pytest's own,
    such as --lf, or -x. Exit code 1: a test failed; 2: the tests, the call or the definitions are invalid, or there is
    no test.
    """
    from framework.operations.testing import TestRequest, run_tests
    from framework.views.testing import coverage_text, tests_json, uncovered_table

    selected = tuple(
        word for option, text in (("-k", expression), ("-m", markers)) if text is not None for word in (option, text)
    )
    verbose = ("-v",) if call.verbose else ()
    spec = None if call.spec is None else Path(call.spec)
    request = TestRequest(
        arguments=(*selected, *verbose, *paths), workers=workers, spec=spec, master=call.master
    )  # fmt: skip
    run = run_tests(request)
    missing = uncovered_table(run.coverage)
    if call.output.as_json:
        call.output.json(tests_json(run.outcomes, run.coverage))
    else:
        call.output.text(coverage_text(run.coverage))
        if missing.rows:
            call.output.text(call.output.formatted(missing))
    if run.exit_code:
        raise click.exceptions.Exit(run.exit_code)
