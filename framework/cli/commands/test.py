"""`sluice test`: the tests of a project, and what they cover; tests of real rows are written by `--record`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from framework.cli.call import Call, pipeline_options
from framework.cli.command import SluiceCommand
from framework.foundation.errors import UserError


@click.command("test", cls=SluiceCommand, context_settings={"ignore_unknown_options": True})
@click.argument("paths", nargs=-1, type=click.UNPROCESSED)
@click.option("-k", "expression", metavar="EXPR", help="Only tests whose names match, such as 'orders and not late'.")
@click.option("-m", "markers", metavar="EXPR", help="Only tests whose markers match.")
@click.option("-n", "workers", metavar="N", help="Run in N processes, or `auto`; needs pytest-xdist.")
@click.option("--record", "dataset", metavar="DATASET", help="Write a test from real rows of this dataset instead.")
@click.option("--version", type=click.IntRange(min=0), metavar="N", help="Record this version of the dataset's table.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Record at most N rows a table."
)
@click.option("--mask", multiple=True, metavar="COLUMN", help="Mask this column in the recorded rows. Repeatable.")
@click.option("--no-mask", multiple=True, metavar="COLUMN", help="Leave a column with a personal name. Repeatable.")
@click.option("--to", "file", metavar="FILE", help="The file of the recorded test: .py or .unit_tests.yml.")
@pipeline_options(result=True, parameters=True)
def command(call: Call, /, *, dataset: str | None, paths: tuple[str, ...], **options: Any) -> None:
    """Run the tests of the project, and print what they cover.

    Runs pytest on PATHS with the fixtures of docs/testing.md, and then names the datasets whose rows no test compares,
    the flows that never ran, and the expectations that never failed. Options that are not listed here are pytest's own,
    such as --lf or -x. Exit code 1: a test failed; 2: the tests, the call or the definitions are invalid, or there is
    no test.

    With --record it samples the inputs of a dataset, masks columns with personal names, updates the sample in a
    temporary storage, and writes a test that expects the rows of that update.
    """
    if dataset is None:
        _run(call, paths, **options)
    else:
        _record(call, dataset, **options)


def _run(
    call: Call, paths: tuple[str, ...], *, expression: str | None, markers: str | None, workers: str | None, **_: Any
) -> None:
    from framework.operations.testing import TestRequest, run_tests
    from framework.views.testing import coverage_text, run_json, uncovered_table

    selections = (("-k", expression), ("-m", markers))
    selected = tuple(word for option, text in selections if text is not None for word in (option, text))
    spec = None if call.spec is None else Path(call.spec)
    arguments = (*selected, *(("-v",) if call.verbose else ()), *paths)
    run = run_tests(TestRequest(arguments=arguments, workers=workers, spec=spec, master=call.master))
    missing = uncovered_table(run.coverage)
    if call.output.as_json:
        call.output.json(run_json(run.outcomes, run.coverage))
    else:
        call.output.text(coverage_text(run.coverage))
        if missing.rows:
            call.output.text(call.output.formatted(missing))
    if run.exit_code:
        raise click.exceptions.Exit(run.exit_code)


def _record(
    call: Call, dataset: str, *, version: int | None, limit: int, mask: tuple[str, ...], no_mask: tuple[str, ...],
    file: str | None, **_: Any,
) -> None:  # fmt: skip
    from framework.operations.recording.recorder import RecordRequest, record_test
    from framework.pipeline import Pipeline

    target = (
        call.spec_file().parent / f"tests/test_{dataset.rpartition('.')[2]}_recorded.py" if file is None else Path(file)
    )
    if target.exists():
        raise UserError("TEST_RECORD_FILE_EXISTS", path=target)
    opened = call.pipeline()
    assert isinstance(opened, Pipeline)
    request = RecordRequest(dataset=dataset, version=version, limit=limit, masked=mask, unmasked=no_mask)
    recorded = record_test(opened, request)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(recorded.text(target), encoding="utf-8")
    if call.output.as_json:
        call.output.json({"file": str(target), "masked": recorded.masked, "notes": recorded.notes})
    else:
        call.output.text("\n".join((f"Wrote {target}.", *recorded.notes)))
