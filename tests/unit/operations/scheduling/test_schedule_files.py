"""Schedules in files: what is read, and what is refused at its line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from framework.declare.pipeline_spec import load_spec
from framework.foundation.errors import GraphErrors
from framework.operations.scheduling.schedule import Misfire, Overlap, Schedule
from framework.operations.scheduling.schedule_file import _READERS, read_schedules

_FIVE_FIELDS = (
    "It has 5 fields instead of 6 or 7: seconds, minutes, hours, day of the month, month, day of the week and, if "
    "wanted, year. Cron's `30 2 * * *` is `0 30 2 * * ?` in Quartz."
)


def _read(folder: Path, schedules: str | None = None, spec: str = "") -> tuple[Schedule, ...]:
    (folder / "pipeline.yml").write_text(f"name: shop\n{spec}")
    if schedules is not None:
        (folder / "schedules.yml").write_text(schedules)
    return read_schedules(load_spec(folder / "pipeline.yml"))


def test_a_pipeline_has_its_trigger_and_the_schedules_beside_it(tmp_path: Path) -> None:
    """The trigger has the shape of Databricks' pipelines; each schedule its own settings."""
    found = _read(
        tmp_path,
        """\
schedules:
  nightly:
    quartz_cron_schedule: 0 30 2 ? * MON-FRI
    timezone_id: Europe/Oslo
    misfire: skip
    overlap: queue
    retries: 2
    backoff_seconds: 30
    timeout_seconds: 3600
    jitter_seconds: 60
    refresh_selection: [orders]
  arrivals:
    on_data: true
    min_seconds_between_runs: 60
""",
        "trigger: {cron: {quartz_cron_schedule: 0 0 6 * * ?, timezone_id: America/New_York}}\n",
    )
    trigger, nightly, arrivals = found
    assert trigger.cron is not None
    assert ("trigger", "0 0 6 * * ?", "America/New_York") == (
        trigger.name,
        trigger.cron.expression,
        trigger.timezone_id,
    )
    assert nightly.cron is not None
    assert ("0 30 2 ? * MON-FRI", "Europe/Oslo") == (nightly.cron.expression, nightly.timezone_id)
    assert (Misfire.SKIP, Overlap.QUEUE, 2, 30.0) == (
        nightly.misfire,
        nightly.overlap,
        nightly.retries,
        nightly.backoff_seconds,
    )
    assert (3600.0, 60.0, ("orders",)) == (nightly.timeout_seconds, nightly.jitter_seconds, nightly.refresh)
    assert (None, True, 60.0) == (arrivals.cron, arrivals.on_data, arrivals.min_seconds_between_runs)


def test_without_a_trigger_or_file_there_is_no_schedule(tmp_path: Path) -> None:
    """`manual: {}` is Databricks' spelling of none; a file may be empty."""
    assert () == _read(tmp_path, "", "trigger: {manual: {}}\n")


def test_every_error_of_the_file_is_reported_at_its_line(tmp_path: Path) -> None:
    """With the line and what is allowed; no schedule of a wrong file runs."""
    text = """\
schedules:
  nightly:
    quartz_cron_schedule: 30 2 * * *
  other:
    quartz_cron_schedule: 0 0 6 * * ?
    timezone_id: Europe/Olso
  third:
    on_date: true
  fourth: {}
  fifth: {on_data: true, misfire: twice}
  sixth: {on_data: true, quartz_cron_schedule: 0 0 6 * * ?}
  seventh: {on_data: true, timeout_seconds: 0}
schedule: {}
"""
    with pytest.raises(GraphErrors) as raised:
        _read(tmp_path, text)
    found = [(each.location.line if each.location else 0, each.what) for each in raised.value.errors]
    assert [
        (3, f"Schedule nightly, `quartz_cron_schedule`: {_FIVE_FIELDS}"),
        (6, "Schedule other, `timezone_id`: `Europe/Olso` is not a time zone, such as Europe/Oslo or UTC."),
        (8, "Schedule third, `on_date`: it is not a setting. Did you mean `on_data`?"),
        (9, "Schedule fourth: it has neither `quartz_cron_schedule` nor `on_data: true`, so it would never run."),
        (10, "Schedule fifth, `misfire`: it is not one of once, skip."),
        (11, "Schedule sixth, `on_data`: a schedule has times or waits for data; write two schedules for both."),
        (12, "Schedule seventh, `timeout_seconds`: it is not more than 0 seconds; leave it out for no limit."),
        (13, "`schedule`: it is unknown here. Did you mean `schedules`?"),
    ] == found  # fmt: skip


@pytest.mark.parametrize(
    ("trigger", "text"),
    [
        ("{cron: {quartz_cron_schedule: 30 2 * * *}}", "It has 5 fields instead of 6 or 7"),
        ("{cron: {timezone_id: UTC}}", "It is neither `manual: {}` nor `cron`"),
        ("daily", "It is neither `manual: {}` nor `cron`"),
        ("{cron: {quartz_cron_schedule: 0 0 6 * * ?, timezone_id: Mars}}", "`Mars` is not a time zone"),
    ],
)
def test_a_wrong_trigger_is_an_error_of_the_spec(tmp_path: Path, trigger: str, text: str) -> None:
    """`sluice validate` reports it with the others."""
    with pytest.raises(GraphErrors) as raised:
        _read(tmp_path, spec=f"trigger: {trigger}\n")
    assert ["PIPELINE_SPEC_TRIGGER"] == [each.condition for each in raised.value.errors]
    assert text in raised.value.errors[0].what


def test_the_examples_of_the_page_are_read(tmp_path: Path) -> None:
    """Both blocks of schedules.md: the trigger of a spec, and a file of schedules."""
    page = (Path(__file__).parents[4] / "docs" / "schedules.md").read_text(encoding="utf-8")
    trigger, schedules = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    found = _read(tmp_path, schedules, trigger.partition("\n")[2])
    assert ["trigger", "nightly", "arrivals"] == [each.name for each in found]
    assert {*re.findall(r"^\| `(\w+)`", page, re.MULTILINE)} == {*_READERS}
