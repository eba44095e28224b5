"""One call of a command: its common options, its pipeline, and the refresh options."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import click

from framework.cli.bundle_surroundings import BundleSurroundings
from framework.cli.command import ORDER, RESULTS, styled
from framework.cli.output import Output, say
from framework.cli.verbosity import is_verbose, verbose_option
from framework.foundation.clock import Clock, SystemClock
from framework.foundation.errors import SluiceError, UserError
from framework.foundation.wording import seconds_text
from framework.operations.pipeline_port import PipelineOpener, PipelinePort, open_pipeline
from framework.plan.request import RequestOptions
from framework.run.update.control.identity import UpdateCause, UpdateIdentity

_LONG_START_SECONDS = 3.0

_Rest = ParamSpec("_Rest")
_Given = TypeVar("_Given", bound=Callable[..., Any])


def _cache_folder() -> Path:
    from framework.session.jars import cache_folder

    return cache_folder()


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The dependencies of a command, which tests replace."""

    open_pipeline: PipelineOpener = open_pipeline
    clock: Clock = field(default_factory=SystemClock)
    bundles: BundleSurroundings = field(default_factory=BundleSurroundings)
    cache: Callable[[], Path] = _cache_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The common options of one call.

    Args:
        spec: the given spec file; None to search for one.
        local: the given local file (`sluice.local.yml`); None for the one beside the spec.
        master: Spark's master; None for the default.
        parameters: configuration entries that override those of the spec.
        verbose: whether to show Spark's log and tracebacks.
        cold: whether to start Spark even if the folder's session is ready.
        output: the output of the result.
    """

    spec: str | None
    local: str | None
    master: str | None
    parameters: tuple[tuple[str, str], ...]
    verbose: bool
    cold: bool
    output: Output
    surroundings: Surroundings

    def spec_file(self) -> Path:
        """Return the given spec file, or the nearest one."""
        # This imports PyYAML, which `--help` does not need.
        from framework.declare.pipeline_spec import find_spec

        return find_spec(Path.cwd()) if self.spec is None else Path(self.spec)

    def pipeline(self, *, short: bool | None = True) -> PipelinePort:
        """Open the pipeline of the call; it is closed when the command ends.

        The pipeline stays open until errors are reported, because the text of a Spark error is lost when Spark stops.
        """
        opened = self.surroundings.open_pipeline(
            self.spec_file(),
            local=None if self.local is None else Path(self.local),
            master=self.master,
            parameters=dict(self.parameters),
            short=short,
            verbose=self.verbose,
            cold=self.cold,
        )
        context = click.get_current_context()
        context.call_on_close(opened.close)
        context.call_on_close(mention_session)
        return opened

    def warn(self, warnings: Sequence[SluiceError]) -> None:
        """Print warnings about a valid pipeline."""
        for warning in warnings:
            text = "\nWarning:\n" + styled(warning.render(), colour="yellow")
            say(text)

    def refuse(self, errors: Sequence[SluiceError]) -> None:
        """Print the errors of tables that an update would refuse, and exit with code 1 if there are any."""
        for error in errors:
            say("\n" + styled(error.render()))
        if errors:
            raise click.exceptions.Exit(1)


def mention_session() -> None:
    """Print added packages, and either why the folder's session was not used, or once a hint that sessions exist."""
    from framework.session.cold_start import take_cold_start, take_connectors

    for words in take_connectors():
        say(words)
    start = take_cold_start()
    if start is None:
        return
    if start.refusal is not None:
        say(f"This command started Spark itself. A session is ready, but {start.refusal}.")
    elif sys.stderr.isatty() and start.seconds > _LONG_START_SECONDS and is_first_mention():
        text = (
            f"Spark took {seconds_text(start.seconds)} to start. `sluice session start` keeps it ready for next time."
        )
        say(text)


def is_first_mention() -> bool:
    """Return whether this user has never seen the hint about sessions, and record that it is shown now."""
    from framework.foundation.files.private_files import make_private_folder

    try:
        make_private_folder(_cache_folder())
        (_cache_folder() / "session-mentioned").touch(exist_ok=False)
    except OSError:
        return False
    return True


def output_option(command: _Given) -> _Given:
    """Add -o to a command that prints a result."""
    choice = click.Choice(["table", "json"])
    return click.option(
        "-o", "--output", type=choice, default="table", show_default=True, help="Format of the result."
    )(command)


def master_option(command: _Given) -> _Given:
    """Add --master to a command that starts Spark."""
    return click.option("--master", metavar="URL", help="URL of the Spark master.  [default: local[*]]")(command)


def pipeline_options(
    *, result: bool = False, parameters: bool = False
) -> Callable[[Callable[Concatenate[Call, _Rest], None]], Callable[..., None]]:
    """Add the common options to a command, and pass them to its function as a `Call`.

    Args:
        result: whether the command prints a result, as a table or as JSON.
        parameters: whether the command runs the pipeline's modules, which read the configuration.
    """

    def decorate(function: Callable[Concatenate[Call, _Rest], None]) -> Callable[..., None]:
        @click.option("--spec", metavar="FILE", help="Spec file of the pipeline.  [default: the nearest pipeline.yml]")
        @click.option(
            "--local", metavar="FILE", help="File of this machine.  [default: sluice.local.yml beside the spec]"
        )
        @master_option
        @click.option("--cold", is_flag=True, help="Start Spark, even if `sluice session` has it ready.")
        @verbose_option
        @click.pass_context
        @wraps(function)
        def run(context: click.Context, /, **options: Any) -> None:
            call = _call(context, options)
            function(call, **options)  # type: ignore[call-arg]

        if parameters:
            run = click.option(
                "--param",
                multiple=True,
                metavar="K=V",
                help="Set a configuration entry; overrides the spec. Repeatable.",
            )(run)
        return output_option(run) if result else run

    return decorate


def _call(context: click.Context, options: dict[str, Any]) -> Call:
    """Remove the common options from `options` and return them."""
    surroundings = context.find_object(Surroundings) or Surroundings()
    return Call(
        spec=options.pop("spec"),
        local=options.pop("local"),
        master=options.pop("master"),
        parameters=tuple(_parameter(text) for text in options.pop("param", ())),
        verbose=is_verbose(context),
        cold=options.pop("cold"),
        output=Output(stream=context.meta[RESULTS], as_json=options.pop("output", "table") == "json"),
        surroundings=surroundings,
    )


def _parameter(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not sign or not key.strip():
        raise UserError("PARAMETER_INVALID", text=text)
    return key.strip(), value


def refresh_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the refresh options to a command; `refresh_of` reads them."""
    options = (
        click.option("--refresh", multiple=True, metavar="A,B", help="Update only these datasets."),
        click.option("--full-refresh", multiple=True, metavar="A,B", help="Clear these datasets and rebuild them."),
        click.option(
            "--full-refresh-all", is_flag=True, help="Clear and rebuild all datasets that allow a full refresh."
        ),
        click.option(
            "--keep-history",
            is_flag=True,
            help="Keep a copy of each --full-refresh table, and put back the rows that its sources no longer have.",
        ),
        click.option(
            "--history-keys",
            multiple=True,
            metavar="K,L",
            help="Columns that identify a row of an append table, which --keep-history needs; '*' for all, if the code "
            "that wrote its rows has not changed.",
        ),
        click.option(
            "--reset-checkpoint",
            multiple=True,
            metavar="FLOW",
            help="Read the flow's sources again; its target keeps its rows. Repeatable.",
        ),
        click.option(
            "--from",
            "start",
            multiple=True,
            metavar="START",
            help="Where the flow of the --reset-checkpoint before it starts, such as startingVersion=12 or earliest; "
            "one for each of its sources, as SOURCE:START.",
        ),
        click.option("--continuous", is_flag=True, help="Keep all flows running until Ctrl-C."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def identity_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that identify an update for its caller; `identity_of` reads them."""
    options = (
        click.option("--update-id", metavar="UUID", help="Id of the update, never used before.  [default: a new one]"),
        click.option("--request-id", metavar="TEXT", help="What all attempts of one request have in common."),
        click.option("--attempt", type=int, metavar="N", help="Number of the attempt, from 1."),
        click.option("--cause", metavar="CAUSE", help=f"Cause for the event log: {', '.join(UpdateCause)}."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def identity_of(options: dict[str, Any]) -> UpdateIdentity | None:
    """Return the update identity from the options; None if no option is given.

    Raises:
        UserError: UPDATE_IDENTITY_INVALID.
    """
    names = ("update_id", "request_id", "attempt", "cause")
    given = {name: options[name] for name in names if options[name] is not None}
    return UpdateIdentity.of(**given) if given else None


def refresh_of(options: dict[str, Any]) -> RequestOptions:
    """Return the request from the options; a list may contain commas, or its option may be repeated.

    Raises:
        UserError: REFRESH_NAMES_MISSING if a name in a list is empty, because an empty selection would select all;
            START_WITHOUT_FLOW.
    """
    flows = _names("--reset-checkpoint", options["reset_checkpoint"])
    starts = _starts(options["reset_checkpoint"], options["start"])
    request = RequestOptions(
        refresh=_names("--refresh", options["refresh"]),
        full_refresh=_names("--full-refresh", options["full_refresh"]),
        full_refresh_all=options["full_refresh_all"],
        reset_checkpoints={flow: starts.get(flow, ()) for flow in flows} if starts else flows,
    )
    keys = _names("--history-keys", options["history_keys"])
    if options["keep_history"] or keys:
        request["keep_history"], request["history_keys"] = options["keep_history"], keys
    if options["continuous"]:  # without the option, the spec decides
        request["continuous"] = True
    return request


def _starts(resets: tuple[str, ...], starts: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return the starts of each flow: a `--from` applies to the flows of the preceding `--reset-checkpoint`."""
    if not starts:
        return {}
    order: Sequence[str] = click.get_current_context().meta[ORDER]
    waiting_resets, waiting_starts = list(resets), list(starts)
    flows: tuple[str, ...] = ()
    found: dict[str, tuple[str, ...]] = {}
    for option in order:
        if option == "reset_checkpoint":
            flows = _names("--reset-checkpoint", (waiting_resets.pop(0),))
        elif option == "start":
            if not flows:
                raise UserError("START_WITHOUT_FLOW")
            start = waiting_starts.pop(0)
            found |= {flow: (*found.get(flow, ()), start) for flow in flows}
    return found


def _names(option: str, lists: tuple[str, ...]) -> tuple[str, ...]:
    names = tuple(name.strip() for text in lists for name in text.split(","))
    if not all(names):
        raise UserError("REFRESH_NAMES_MISSING", option=option)
    return names
