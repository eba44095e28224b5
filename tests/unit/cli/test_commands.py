"""The calls that each command makes on the pipeline, and its output."""

from __future__ import annotations

import dataclasses
import gc
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from framework.diagrams.picture import picture_of
from framework.diagrams.svg import svg
from framework.foundation.errors import OperationError, SourceError, UserError
from framework.graph.stored_graph import GraphStore
from framework.plan.explainer import plan_json, plan_text
from framework.run.update.results import FlowState, UpdateState
from tests.support.commands import every_command
from tests.support.fake_pipeline import IDLE, LOADED, PLAN, FakePipeline, FakeRows, failed, graph

Sluice = Callable[..., Result]


def test_validate_lists_the_datasets_and_writes_nothing(sluice: Sluice, pipeline: FakePipeline) -> None:
    """`validate` prints each dataset with its kind and reads, in order of update."""
    result = sluice("validate")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        "dataset  kind               flows        reads       columns",
        "───────  ─────────────────  ───────────  ──────────  ───────",
        "orders   streaming table    load · once  raw.orders        1",
        "by_day   materialized view               orders            1",
        "",
        "shop is valid: 2 datasets · 2 flows · 1 external table · names in main.shop",
    ]
    assert not pipeline.storage.exists(pipeline.storage.root)
    assert pipeline.closed


def test_validate_as_json_has_names_schemas_and_reads(sluice: Sluice) -> None:
    """`validate -o json` is one JSON object."""
    found = json.loads(sluice("validate", "-o", "json").stdout)
    assert [dataset["name"] for dataset in found["datasets"]] == ["main.shop.orders", "main.shop.by_day"]
    assert found["datasets"][0]["schema"]["fields"][0]["name"] == "id"
    assert found["flows"][1]["reads"] == [{"name": "main.shop.orders", "streaming": False}]
    assert found["external"] == ["raw.orders"]


def test_plan_prints_the_text_or_the_json_of_the_explainer(sluice: Sluice) -> None:
    """`plan` prints the texts of the explainer."""
    assert sluice("plan").stdout.rstrip("\n") == plan_text(PLAN)
    assert json.loads(sluice("plan", "-o", "json").stdout) == plan_json(PLAN)


@pytest.mark.parametrize(
    ("options", "short"),
    [((), None), (("--refresh", "a"), None), (("--full-refresh", "a"), False), (("--full-refresh-all",), False),
     (("--reset-checkpoint", "f"), False), (("--continuous",), False)],
)  # fmt: skip
def test_an_update_that_reads_much_starts_spark_for_a_long_run(
    sluice: Sluice,
    pipeline: FakePipeline,
    options: tuple[str, ...],
    short: bool | None,  # noqa: FBT001 - a case
) -> None:
    """Any other update starts Spark as the last updates suggest."""
    assert sluice("run", *options).exit_code == 0
    assert pipeline.calls[0][1][1]["short"] is short


def test_an_update_collects_pythons_garbage(sluice: Sluice) -> None:
    """The process of a short command does not, nor that of `run` before its update, which may take days."""
    gc.disable()
    try:
        assert sluice("plan").exit_code == 0
        assert not gc.isenabled()
        assert sluice("run").exit_code == 0
        assert gc.isenabled()
    finally:
        gc.unfreeze()
        gc.enable()


@pytest.mark.parametrize("command", ["plan", "run"])
def test_plan_and_run_take_the_same_refresh_options(sluice: Sluice, pipeline: FakePipeline, command: str) -> None:
    """Lists with commas and repeated options are combined; `plan` gets the request of `run`."""
    arguments = ["--refresh", "a,b", "--refresh", "c", "--full-refresh", "d", "--full-refresh-all"]
    arguments += ["--reset-checkpoint", "f", "--reset-checkpoint", "g", "--param", "start=2013=x", "--param", "empty="]
    arguments += ["--cold"] if command == "run" else []
    result = sluice(command, *arguments, "--master", "local[1]")
    assert result.exit_code == 0
    opened = pipeline.calls[0][1][1]
    assert opened == {
        "master": "local[1]",
        "parameters": {"start": "2013=x", "empty": ""},
        "short": command == "plan",
        "verbose": False,
        "cold": command == "run",
    }
    assert pipeline.calls[1] == (
        command,
        {"refresh": ("a", "b", "c"), "full_refresh": ("d",), "full_refresh_all": True, "reset_checkpoints": ("f", "g")},
    )


def test_a_start_belongs_to_the_flows_before_it(sluice: Sluice, pipeline: FakePipeline) -> None:
    """`--from` is for the flows of the `--reset-checkpoint` before it; several flows have their own starts."""
    arguments = ["--reset-checkpoint", "a", "--reset-checkpoint", "b,c", "--from", "x:earliest", "--from=y:latest"]
    assert sluice("run", *arguments, "--reset-checkpoint", "d", "--from", "startingVersion=12").exit_code == 0
    expected = {"a": (), "b": ("x:earliest", "y:latest"), "c": ("x:earliest", "y:latest"), "d": ("startingVersion=12",)}
    assert pipeline.calls[1][1]["reset_checkpoints"] == expected
    alone = sluice("run", "--from", "earliest", "--reset-checkpoint", "a")
    assert (alone.exit_code, "[START_WITHOUT_FLOW]" in alone.stderr) == (2, True)
    deployed = sluice("run", "--target", "prod", "--reset-checkpoint", "a", "--from", "earliest")
    assert (deployed.exit_code, "--from does not go with --target" in deployed.stderr) == (2, True)


def test_validate_names_the_flows_that_would_fail(sluice: Sluice, pipeline: FakePipeline) -> None:
    """The definitions are valid, the error has the ways out, and the exit code is 1."""
    condition = "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
    pipeline.foretold = (OperationError(condition, flow="main.shop.load", problem="It changed.", ways="Restore it."),)
    result = sluice("validate")
    assert result.exit_code == 1
    assert "shop is valid" in result.stdout
    assert f"[{condition}] Flow main.shop.load cannot continue from its checkpoint" in result.stderr


def test_validate_prints_the_warnings_of_a_valid_pipeline(sluice: Sluice, pipeline: FakePipeline) -> None:
    """They are no output, and the exit code is 0."""
    pipeline.warnings = (UserError("PARTITION_STORES_OTHER_HOUR", dataset="d", column="at", zone="Europe/Berlin"),)
    result = sluice("validate")
    assert result.exit_code == 0
    assert "shop is valid" in result.stdout
    assert "Warning:\n[PARTITION_STORES_OTHER_HOUR] d is partitioned by at" in result.stderr


def test_a_plan_prints_the_warning_that_foretells_a_failure(sluice: Sluice, pipeline: FakePipeline) -> None:
    """Of the warnings about the code it has only that of a stream whose rows will be replaced."""
    stream = UserError("STREAM_OF_MATERIALIZED_VIEW", flow="main.shop.load", view="main.shop.prices")
    other = UserError("PARTITION_STORES_OTHER_HOUR", dataset="d", column="at", zone="Europe/Berlin")
    pipeline.warnings = (other, stream)
    result = sluice("plan")
    assert result.exit_code == 0
    assert result.stderr.count("Warning:") == 1
    assert (
        "[STREAM_OF_MATERIALIZED_VIEW] Flow main.shop.load reads the materialized view main.shop.prices as a stream"
        in result.stderr
    )


@pytest.mark.parametrize("arguments", [("--refresh", ""), ("--full-refresh", "a,,b"), ("--reset-checkpoint", " ")])
def test_an_empty_name_does_not_select_all(sluice: Sluice, pipeline: FakePipeline, arguments: tuple[str, str]) -> None:
    """`--refresh "$NOTHING"` is an error and not an update of everything."""
    result = sluice("run", *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("[REFRESH_NAMES_MISSING]")
    assert pipeline.calls == []


def test_a_parameter_without_a_value_is_an_error(sluice: Sluice) -> None:
    """The error of `--param start` names the expected format."""
    result = sluice("run", "--param", "start")
    assert result.exit_code == 2
    assert "[PARAMETER_INVALID] 'start' is not a valid parameter." in result.stderr


def test_run_prints_its_summary_and_its_progress_separately(sluice: Sluice, pipeline: FakePipeline) -> None:
    """The summary is the result; states, rows and seconds of flows are lines on standard error."""
    result = sluice("run")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "shop  COMPLETED in 3.2 s  update u-1",
        "",
        "flow              state       rows   time",
        "────────────────  ─────────  ─────  ─────",
        "load into orders  COMPLETED  1,200  2.5 s",
        "",
        "1 flow had nothing to do",
        "",
        "Data quality",
        "dataset  expectation  action  passed  failed",
        "───────  ───────────  ──────  ──────  ──────",
        "orders   has an id    drop     1,197       3",
        "",
        f"graph   {pipeline.storage.path('graph.html')}",
        f"tables  {pipeline.storage.path('tables')}",
        f"events  {pipeline.storage.path('events')}",
    ]
    assert [line[10:] for line in result.stderr.splitlines()] == [
        "shop: RUNNING",
        "load into orders: RUNNING",
        "load into orders: COMPLETED, 1,200 rows, 2.5 s",
        "by_day: IDLE",
        "shop: COMPLETED",
    ]


def test_an_idle_update_says_that_there_is_nothing_to_do(sluice: Sluice, pipeline: FakePipeline) -> None:
    """If no flow had work, the summary is one sentence."""
    pipeline.result = dataclasses.replace(pipeline.result, flows=(IDLE, dataclasses.replace(IDLE, flow=LOADED.flow)))
    assert sluice("run").stdout.splitlines()[:4] == [
        "shop  COMPLETED in 3.2 s  update u-1",
        "",
        "Nothing to do: 2 flows up to date",
        "",
    ]


def test_run_writes_the_page_of_the_graph(sluice: Sluice, pipeline: FakePipeline) -> None:
    """The page in the summary exists and has the diagram."""
    sluice("run")
    page = pipeline.storage.read_text("graph.html")
    assert page is not None
    assert svg(picture_of(graph())) in page


def test_a_stored_graph_is_drawn_without_the_code(sluice: Sluice, pipeline: FakePipeline) -> None:
    """`graph --stored` prints what `graph` prints without its graph; without a file it says what to do."""
    missing = sluice("graph", "--stored")
    assert (missing.exit_code, "[GRAPH_NOT_STORED] No graph of pipeline shop is stored" in missing.stderr) == (2, True)
    GraphStore(pipeline.storage, "shop").write(graph(), {})
    for form in ("svg", "mermaid", "dot", "html"):
        pipeline.calls.clear()
        stored = sluice("graph", "--stored", "--format", form).stdout
        assert [name for name, _ in pipeline.calls] == ["open"]
        assert stored == sluice("graph", "--format", form).stdout


def test_run_as_json_is_one_object_with_full_names(sluice: Sluice) -> None:
    """`run -o json` prints the result and nothing else."""
    found = json.loads(sluice("run", "-o", "json").stdout)
    assert (found["pipeline"], found["state"], found["duration_seconds"]) == ("shop", "COMPLETED", 3.25)
    assert found["flows"][0] == {
        "flow": "main.shop.load",
        "dataset": "main.shop.orders",
        "state": "COMPLETED",
        "reason": "",
        "rows_written": 1200,
        "rows_upserted": 0,
        "rows_deleted": 0,
        "rows_dropped": 3,
        "seconds": 2.5,
        "error": None,
        "expectations": [
            {"name": "has an id", "dataset": "main.shop.orders", "action": "drop", "passed": 1197, "failed": 3}
        ],
    }


def test_a_failed_update_prints_its_errors_and_exits_with_1(sluice: Sluice, pipeline: FakePipeline) -> None:
    """The error of each failed flow is a paragraph on standard error, after the summary."""
    error = OperationError("STORAGE_NOT_WRITABLE", path="/data", problem="no space left on device")
    pipeline.result = dataclasses.replace(pipeline.result, state=UpdateState.FAILED, flows=(LOADED, failed(error)))
    result = sluice("run")
    assert result.exit_code == 1
    assert "Flow by_day failed:\n[STORAGE_NOT_WRITABLE] /data cannot be written" in result.stderr
    assert "by_day            FAILED" in result.stdout
    as_json = json.loads(sluice("run", "-o", "json").stdout)
    assert as_json["flows"][1]["error"]["condition"] == "STORAGE_NOT_WRITABLE"


def test_a_canceled_update_exits_with_1(sluice: Sluice, pipeline: FakePipeline) -> None:
    """A stopped update did not complete its request."""
    pipeline.result = dataclasses.replace(pipeline.result, state=UpdateState.CANCELED)
    assert sluice("run").exit_code == 1


def test_output_of_modules_is_not_part_of_the_result(sluice: Sluice, pipeline: FakePipeline) -> None:
    """A module's own `print` goes to standard error, so that the result is valid JSON."""
    pipeline.during_run = lambda: print("hello from a module")  # noqa: T201 - what the test is about
    result = sluice("run", "-o", "json")
    assert json.loads(result.stdout)["state"] == "COMPLETED"
    assert "hello from a module" in result.stderr


@pytest.mark.parametrize(
    ("picture_format", "begins"),
    [("svg", "<svg "), ("mermaid", "flowchart LR\n"), ("dot", 'digraph "shop" {\n'), ("html", "<!DOCTYPE html>\n")],
)
def test_graph_prints_the_requested_format(sluice: Sluice, picture_format: str, begins: str) -> None:
    """Standard output contains only the diagram."""
    result = sluice("graph", "--format", picture_format)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(begins)
    assert result.stdout.endswith(("</svg>\n", "#8a95a3\n", "}\n", "</html>\n"))


def test_graph_is_svg_by_default(sluice: Sluice) -> None:
    """`sluice graph > graph.svg` writes an image."""
    assert sluice("graph").stdout.startswith("<svg ")


def test_show_prints_at_most_the_requested_rows(sluice: Sluice, pipeline: FakePipeline) -> None:
    """`show -n 1` reads and prints one row."""
    assert sluice("show", "orders", "-n", "1").stdout.splitlines() == ["id  city", "──  ────", " 1  Łódź"]
    assert pipeline.calls[1] == ("preview", ("orders", 1))


def test_sql_prints_rows_as_table_or_json(sluice: Sluice, pipeline: FakePipeline) -> None:
    """A null is `null` in both, and letters are not escaped."""
    query = "SELECT * FROM orders"
    assert sluice("sql", query).stdout.splitlines() == ["id  city", "──  ────", " 1  Łódź", " 2  null"]
    assert json.loads(sluice("sql", query, "-o", "json").stdout) == [{"id": 1, "city": "Łódź"}, {"id": 2, "city": None}]
    assert ("sql", query) in pipeline.calls


def test_no_rows_are_an_empty_table_or_list(sluice: Sluice, pipeline: FakePipeline) -> None:
    """A query without rows is valid."""
    pipeline.rows = FakeRows(columns=["id"], rows=[])
    assert sluice("sql", "SELECT 1").stdout == "id\n──\n"
    assert sluice("sql", "SELECT 1", "-o", "json").stdout == "[]\n"


def test_an_invalid_definition_exits_with_2(sluice: Sluice, pipeline: FakePipeline) -> None:
    """A user's error is one paragraph on standard error, without a traceback."""
    pipeline.fault = UserError("INVALID_NAME", name="a.b.c.d")
    result = sluice("validate")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == pipeline.fault.render() + "\n"
    assert pipeline.closed


def test_an_operation_that_fails_exits_with_1(sluice: Sluice, pipeline: FakePipeline) -> None:
    """An update that can't start is a failure, not invalid usage."""
    pipeline.fault = OperationError("STORAGE_NOT_WRITABLE", path="/data", problem="read-only file system")
    assert sluice("run").exit_code == 1


def test_an_unexpected_error_is_reported_as_internal(sluice: Sluice, pipeline: FakePipeline) -> None:
    """A bug is one paragraph, too; -v prints its traceback."""
    pipeline.fault = ZeroDivisionError("division by zero")
    quiet = sluice("show", "orders")
    assert quiet.exit_code == 1
    assert quiet.stderr.startswith("[INTERNAL_ERROR] An unexpected error occurred: ZeroDivisionError")
    assert "Traceback" not in quiet.stderr
    verbose = sluice("show", "orders", "-v")
    assert "Traceback (most recent call last)" in verbose.stderr
    assert "ZeroDivisionError: division by zero" in verbose.stderr


def test_an_error_of_several_flows_is_printed_once(sluice: Sluice, pipeline: FakePipeline) -> None:
    """Both flows of a table of a database that is held fail with its error; a table that waits has its reason."""
    error = OperationError("STORAGE_NOT_WRITABLE", path="/data", problem="read-only file system")
    waits = SourceError("DATABASE_TRANSACTIONS_OPEN", slot="shop", seconds=100, pids="4711")
    flows = (dataclasses.replace(LOADED, state=FlowState.FAILED, error=error), failed(error))
    excluded = dataclasses.replace(IDLE, state=FlowState.EXCLUDED, reason="it could not begin: open transactions")
    pipeline.result = dataclasses.replace(
        pipeline.result, state=UpdateState.FAILED, flows=(*flows, excluded), refused=(waits,)
    )
    result = sluice("run")
    assert result.stderr.count("[STORAGE_NOT_WRITABLE]") == 1
    assert "Flows load into orders, by_day failed:\n[STORAGE_NOT_WRITABLE]" in result.stderr
    assert "A table waits for the next update:\n[DATABASE_TRANSACTIONS_OPEN]" in result.stderr
    assert "it could not begin: open transactions" in " ".join(result.stdout.split())
    assert "not in the selection" not in result.stdout


def test_verbose_means_the_same_before_and_after_the_name_of_a_command(sluice: Sluice, pipeline: FakePipeline) -> None:
    """Each group and each command takes -v, so that it can be added anywhere to a command that failed."""
    pipeline.fault = ZeroDivisionError("division by zero")
    for arguments in (("-v", "show", "orders"), ("show", "-v", "orders"), ("show", "orders", "-v")):
        assert "ZeroDivisionError: division by zero\n" in sluice(*arguments).stderr
    pipeline.fault = None
    for arguments in (("-v", "checkpoints", "list"), ("checkpoints", "-v", "list"), ("checkpoints", "list", "-v")):
        sluice(*arguments)
        assert pipeline.calls[-1][1][1]["verbose"] is True
    options = {words: [text for each in command.params for text in each.opts] for words, command in every_command()}
    assert [words for words, texts in options.items() if "-v" not in texts] == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("plna",),
        ("show",),
        ("show", "orders", "-n", "0"),
        ("run", "--continously"),
        ("graph", "--format", "png"),
        ("-x",),
    ],
)
def test_invalid_usage_exits_with_2_and_prints_no_result(sluice: Sluice, arguments: tuple[str, ...]) -> None:
    """Errors of click are printed on standard error."""
    result = sluice(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: " in result.stderr


def test_a_command_misspelt_is_answered_by_the_nearest(sluice: Sluice) -> None:
    """The nearest command is suggested."""
    assert "Command plna does not exist. Did you mean plan?" in sluice("plna").stderr


def test_the_spec_is_searched_in_the_folder_and_its_parents(
    sluice: Sluice, pipeline: FakePipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands work in all folders of a project; elsewhere the error says what to do."""
    deep = Path.cwd() / "transformations"
    deep.mkdir()
    monkeypatch.chdir(deep)
    assert sluice("validate").exit_code == 0
    assert pipeline.calls[0][1][0].resolve() == (deep.parent / "pipeline.yml").resolve()
    monkeypatch.chdir(tmp_path)
    result = sluice("validate")
    assert result.exit_code == 2
    assert result.stderr.startswith("[PIPELINE_SPEC_FILE_NOT_FOUND]")


def test_the_path_of_a_spec_is_not_changed(sluice: Sluice, pipeline: FakePipeline) -> None:
    """--spec is relative to the working directory."""
    sluice("validate", "--spec", "other/spec.yml")
    assert pipeline.calls[0][1][0] == Path("other/spec.yml")


class ClosedError(Exception):
    """An error that can only be printed while its pipeline is open, as Spark's can."""

    def __init__(self, pipeline: FakePipeline) -> None:
        super().__init__()
        self._pipeline = pipeline

    def __str__(self) -> str:
        """The message, while the pipeline is open."""
        assert not self._pipeline.closed
        return "told in time"


def test_an_error_is_reported_before_spark_stops(sluice: Sluice, pipeline: FakePipeline) -> None:
    """The pipeline is closed after its error was reported."""
    pipeline.fault = ClosedError(pipeline)
    result = sluice("show", "orders")
    assert result.exit_code == 1
    assert "ClosedError: told in time" in result.stderr
    assert pipeline.closed


def test_validate_for_databricks_reports_unsupported_declarations(sluice: Sluice, pipeline: FakePipeline) -> None:
    """Errors have the files and lines of the libraries, and no pipeline is opened."""
    Path("flows").mkdir()
    Path("flows/shop.py").write_text(
        "from framework import pipelines as dp\ndp.create_streaming_table('t', private=True)\n", encoding="utf-8"
    )
    Path("pipeline.yml").write_text("name: shop\nlibraries: [{glob: {include: flows/**}}]\n", encoding="utf-8")
    result = sluice("validate", "--databricks")
    assert (result.exit_code, pipeline.calls) == (2, [])
    assert "[NATIVE_ARGUMENT_MISSING] create_streaming_table(): argument `private`" in result.stderr
    assert "flows/shop.py:2" in result.stderr
    assert sluice("validate").exit_code == 0
