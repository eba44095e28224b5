"""`sluice adopt`: run a pipeline that exists on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from framework.cli.command import RESULTS, SluiceCommand, styled
from framework.cli.output import Output, say
from framework.cli.verbosity import verbose_option

if TYPE_CHECKING:
    from framework.adoption.adopt import Adoption


@click.command("adopt", cls=SluiceCommand)
@click.argument("folder", type=click.Path(path_type=Path), default=".")
@click.option("--samples", is_flag=True, help="Also write files of one row, with the columns that the code names.")
@verbose_option
@click.pass_context
def command(context: click.Context, folder: Path, *, samples: bool) -> None:
    """Prepare a pipeline that was written for Databricks to run on this machine.

    Reads the specs, bundles, modules and notebooks in FOLDER (default: this one), and changes none of them. Writes
    sluice.local.yml with an entry for each path, table, function, secret and parameter that the code needs, and a
    pipeline.yml if there is no spec. Fill in the entries; `sluice validate` then lists what is left.
    """
    from framework.adoption.adopt import adopt
    from framework.adoption.samples import write_samples

    output = Output(stream=context.meta[RESULTS])
    for adoption in adopt(folder, environment=dict(os.environ)):
        _print(output, adoption)
        for path in [path for spec in adoption.specs if samples for path in write_samples(spec)]:
            output.text(f"Wrote {os.path.relpath(path)}, a sample.")


def _print(output: Output, adoption: Adoption) -> None:
    from framework.adoption.local_file import suggested
    from framework.adoption.needs import NeedKind
    from framework.declare.workspace.local_file import LOCAL_NAME
    from framework.views.table import Table

    for fault in adoption.faults:
        say(styled(fault.render(), colour="yellow") + "\n")
    for path in adoption.written:
        output.text(f"Wrote {os.path.relpath(path)}.")
    packages = [need.name for need in adoption.needs if need.kind is NeedKind.PACKAGE]
    rows = [
        [
            str(need.kind),
            need.name,
            _value(suggested(need)),
            f"{os.path.relpath(need.location.file)}:{need.location.line}",
        ]
        for need in adoption.needs
        if need.kind is not NeedKind.PACKAGE
    ]
    if rows:
        output.text("\n" + output.formatted(Table.of(("key", "name", "value", "named in"), rows)))
    if packages:
        output.text(f"\nPackages that the code imports and this environment lacks: {' '.join(packages)}")
    local = os.path.relpath(adoption.folder / LOCAL_NAME)
    if adoption.kept:
        output.text(f"\n{local} exists. Add these entries to it:\n\n{adoption.kept}")
    shown = " ".join(f"--spec {os.path.relpath(spec)}" for spec in adoption.specs[:1])
    fill = f"  fill in {local}\n" if rows else ""
    output.text(f"\nNext:\n{fill}  sluice validate {shown}")


def _value(value: object) -> str:
    return ", ".join(f"{key}: {each}" for key, each in value.items()) if isinstance(value, dict) else str(value)
