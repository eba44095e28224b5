"""The feed of the demo as files: a schedule, JSON files of change events, weather, reference tables.

Events come in the order in which they were sent, which is nearly the order in which they happened: some
are sent minutes late, some a day or two late in files of their own, some twice. Now and then there is a
heartbeat, which is about no flight. The same number of months gives the same bytes each time.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from framework.demo.events import EVENT_COLUMNS, KEYS, Fractions, draw, hash_keys, make_events, make_schedule
from framework.demo.source_data import check_months, data_folder, read_flights, read_weather
from framework.foundation.files.stored_format import StoredFormat

FEED_FILE = "feed.json"
FEED_FORMAT = StoredFormat(1)
REFERENCE_TABLES = ("airlines", "airports", "planes")

_DELAYED = 0.05
_A_DAY_LATE = 0.005
_SENT_TWICE = 0.01
_TIME_COLUMNS = ("event_time", "sent_at", "scheduled_departure")


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """What was fed: `months` of 2013, in rows; `messages` counts repeated events and heartbeats too."""

    months: int
    flights: int
    planned: int
    events: int
    messages: int


def write_feed(folder: Path, months: int | None) -> Feed:
    """Write the feed into `folder`, which must not exist yet, and return its counts.

    The files are complete or absent: they are written beside the folder, which is then renamed. Two months
    take about 3 seconds on two cores, the year about 12.

    Raises:
        UserError: DEMO_DATA_MISSING, DEMO_MONTHS_INVALID.
    """
    chosen = check_months(months)
    flights = read_flights(chosen)
    schedule, events = make_schedule(flights), make_events(flights)
    messages = deliver(events)
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    _write_schedule(partial / "schedule", schedule)
    _write_messages(partial / "events", messages)
    _write_weather(partial / "weather", read_weather(chosen))
    _copy_reference_tables(partial / "reference")
    feed = Feed(months=chosen, flights=len(flights), planned=len(schedule), events=len(events), messages=len(messages))
    (partial / FEED_FILE).write_text(FEED_FORMAT.text(asdict(feed)) + "\n", encoding="utf-8")
    partial.rename(folder)
    return feed


def deliver(events: pd.DataFrame) -> pd.DataFrame:
    """What is sent of these events, in the order in which it is sent, with `sent_at` and the `file` it goes to."""
    hashes = hash_keys(events[["event_time", *KEYS]])
    fate = draw(hashes, 1)
    lag = draw(hashes, 2) * 40
    lag = np.where(fate < _DELAYED, 60 + draw(hashes, 3) * 45 * 60, lag)
    lag = np.where(fate < _A_DAY_LATE, (12 + draw(hashes, 3) * 36) * 3600, lag)
    sent = events.assign(sent_at=events["event_time"] + _seconds(lag), late=fate < _A_DAY_LATE)
    again = draw(hashes, 4) < _SENT_TWICE
    wait = np.where(draw(hashes, 5) < 0.1, 86400, 120)[again]
    repeated = sent.loc[again].assign(sent_at=sent.loc[again, "sent_at"] + _seconds(wait))
    messages = pd.concat([sent, repeated, _heartbeats(events)], ignore_index=True)
    messages = messages.sort_values(["sent_at", "event_time", *KEYS], kind="stable", ignore_index=True)
    day = messages["sent_at"].dt.strftime("%Y-%m-%d")
    messages["file"] = day.where(~messages["late"], day + "-late")
    return messages.drop(columns="late")


def _heartbeats(events: pd.DataFrame) -> pd.DataFrame:
    """A message each hour that says only that the sender is alive."""
    hours = pd.date_range(events["event_time"].min().floor("h"), events["event_time"].max(), freq="h")
    return pd.DataFrame({"status": "HEARTBEAT", "event_time": hours, "sent_at": hours, "late": False})


def _seconds(numbers: Fractions) -> pd.TimedeltaIndex:
    """Whole seconds as time spans."""
    return pd.to_timedelta(numbers.astype(np.int64), unit="s")


def _write_schedule(folder: Path, schedule: pd.DataFrame) -> None:
    """One Parquet file, its days as dates and its times as microseconds in UTC."""
    folder.mkdir(parents=True)
    typed = schedule.assign(
        flight_date=pd.to_datetime(schedule["flight_date"]).dt.date,
        scheduled_departure=schedule["scheduled_departure"].dt.as_unit("us"),
    )
    typed.to_parquet(folder / "schedule.parquet", index=False)


def _write_messages(folder: Path, messages: pd.DataFrame) -> None:
    """One file of JSON lines a day, and one for what is late on that day."""
    folder.mkdir(parents=True)
    lines = np.array(list(_json_lines(messages[["sent_at", *EVENT_COLUMNS]])), dtype=object)
    for name, rows in messages.groupby("file").indices.items():
        (folder / f"{name}.json").write_text("\n".join(lines[rows]) + "\n", encoding="utf-8")


def _json_lines(frame: pd.DataFrame) -> Iterator[str]:
    """Each row as JSON, times as ISO 8601 in UTC, without the fields that are null."""
    columns = [_json_values(frame[column]) for column in frame.columns]
    heads = [f'"{column}":' for column in frame.columns]
    for row in zip(*columns, strict=True):
        yield "{" + ",".join(head + value for head, value in zip(heads, row, strict=True) if value) + "}"


def _json_values(column: pd.Series) -> list[str]:
    """The column's values as JSON texts, empty where null. Texts are encoded once for each distinct one."""
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        instants = column.dt.tz_localize(None).to_numpy(dtype="datetime64[s]")
        texts = pd.Series(np.datetime_as_string(instants), dtype=object)
        return ('"' + texts + 'Z"').where(column.notna().to_numpy(), "").tolist()
    codes, values = pd.factorize(column)
    encoded = [json.dumps(value.item() if isinstance(value, np.generic) else value) for value in values]
    return [*np.array([*encoded, ""], dtype=object)[codes]]


def _write_weather(folder: Path, weather: pd.DataFrame) -> None:
    """One file of JSON lines a month."""
    folder.mkdir(parents=True)
    for month, rows in weather.groupby("month"):
        (folder / f"2013-{month:02}.json").write_text(
            "\n".join(_json_lines(rows.drop(columns=["year", "month", "day", "hour"]))) + "\n", encoding="utf-8"
        )


def _copy_reference_tables(folder: Path) -> None:
    """The airlines, airports and planes as the package has them, one folder each."""
    for name in REFERENCE_TABLES:
        (folder / name).mkdir(parents=True)
        shutil.copyfile(data_folder() / f"{name}.csv", folder / name / f"{name}.csv")
