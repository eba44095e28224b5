"""`sluice report`: one HTML file about the pipeline."""

from __future__ import annotations

from pathlib import Path

import click

from framework.cli.call import Call, pipeline_options
from framework.cli.command import SluiceCommand
from framework.foundation.errors import OperationError

_DEFAULT = "sluice-report.html"


@click.command("report", cls=SluiceCommand)
@click.argument("file", default=_DEFAULT, metavar="[FILE]")
@click.option("--stored", is_flag=True, help="Report only what the storage has, without Spark: no lag and no doctor.")
@pipeline_options(parameters=True)
def command(call: Call, /, *, file: str, stored: bool) -> None:
    """Write one HTML file about the pipeline, to be sent by mail.

    FILE is sluice-report.html by default. The report has the graph with the state of each dataset, the last updates,
    the counts of expectations, the lag of each flow, and what the doctor finds, with the ways out. It has no rows of
    tables, no scripts, and loads nothing. A FILE of - is standard output.
    """
    from framework.diagrams.report import report_page
    from framework.operations.reporting import make_report
    from framework.views.reports.report import attention_text

    report = make_report(call.pipeline(), call.surroundings.cache(), call.surroundings.clock, stored=stored)
    page = report_page(report)
    if file == "-":
        call.output.text(page.rstrip("\n"))
        return
    try:
        Path(file).write_text(page, encoding="utf-8")
    except OSError as error:
        raise OperationError("REPORT_NOT_WRITABLE", path=file, cause=error.strerror or str(error)) from error
    attention = attention_text(report)
    call.output.text(f"{file}: {report.sentence()}" + (f"\nNeeds attention: {attention}" if attention else ""))
