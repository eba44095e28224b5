"""The demo's feed: consistent with its source, out of order, and deterministic."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pandas as pd
import pytest

from framework.demo.events import KEYS, make_events, make_schedule
from framework.demo.feeder import Feed, deliver, write_feed
from framework.demo.source_data import read_flights
from framework.foundation.errors import UserError


@pytest.fixture(scope="module")
def flights() -> pd.DataFrame:
    """The flights of January."""
    return read_flights(1)


@pytest.fixture(scope="module")
def events(flights: pd.DataFrame) -> pd.DataFrame:
    """The change events of January's flights."""
    return make_events(flights)


@pytest.fixture(scope="module")
def messages(events: pd.DataFrame) -> pd.DataFrame:
    """The messages that carry January's events."""
    return deliver(events)


@pytest.fixture(scope="module")
def fed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Feed]:
    """A folder with the feed of January, and its description."""
    folder = tmp_path_factory.mktemp("demo") / "data"
    return folder, write_feed(folder, 1)


def digest(folder: Path) -> dict[str, str]:
    """The hash of each file by its relative path."""
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in folder.rglob("*")
        if file.is_file()
    }


def test_carrier_number_origin_and_day_identify_every_flight_of_the_year() -> None:
    """No two of the 336,776 flights share the key that the pipeline uses."""
    flights = read_flights(12)
    assert (336_776, 0) == (len(flights), int(flights.duplicated(KEYS).sum()))


def test_no_two_events_of_a_flight_share_an_event_time(events: pd.DataFrame) -> None:
    """Event time alone orders the events of a flight, so it can be the sequence."""
    assert 0 == int(events.duplicated([*KEYS, "event_time"]).sum())


def test_the_last_event_of_each_flight_is_what_the_source_says(flights: pd.DataFrame, events: pd.DataFrame) -> None:
    """In order of event time each flight ends cancelled, departed or arrived, with the source's figures."""
    columns = ["status", "dest", "tailnum", "scheduled_departure", "dep_delay", "arr_delay", "air_time"]
    last = events.groupby(KEYS).tail(1).set_index(KEYS).sort_index()[columns]
    truth = flights.set_index(KEYS).sort_index()
    truth["status"] = "ARRIVED"
    truth.loc[truth["arr_time"].isna(), "status"] = "DEPARTED"
    truth.loc[truth["dep_time"].isna(), "status"] = "CANCELLED"
    unknown = truth["status"] == "CANCELLED"
    figures = columns[1:]
    truth[figures] = truth[figures].mask(unknown)
    pd.testing.assert_frame_equal(truth[columns].fillna({"tailnum": ""}), last.fillna({"tailnum": ""}))


def test_the_schedule_is_behind_the_events(flights: pd.DataFrame, events: pd.DataFrame) -> None:
    """Each flight that is missing in the schedule or has another time there has a SCHEDULED event."""
    true_times = flights.set_index(KEYS)["scheduled_departure"]
    planned = make_schedule(flights).set_index(KEYS)["scheduled_departure"]
    outdated = set(true_times.index) - set(planned.index[planned == true_times.reindex(planned.index)])
    told = set(events.loc[events["status"] == "SCHEDULED", KEYS].itertuples(index=False, name=None))
    assert 0 < len(planned) < len(flights)
    assert set() == outdated - told


def test_messages_are_late_repeated_and_out_of_order(events: pd.DataFrame, messages: pd.DataFrame) -> None:
    """Every event is sent, some twice, some after later ones, some in a file of late ones."""
    about_flights = messages.dropna(subset=["flight"])
    repeated = about_flights.duplicated([*KEYS, "event_time"])
    late = about_flights["file"].str.endswith("-late")
    assert len(events) == int((~repeated).sum())
    assert int(repeated.sum()) > len(events) // 200
    assert int(late.sum()) > len(events) // 500
    assert not about_flights["event_time"].is_monotonic_increasing
    assert messages["sent_at"].is_monotonic_increasing
    assert bool((messages["sent_at"] >= messages["event_time"]).all())


def test_some_cancellations_are_overtaken_by_older_events(messages: pd.DataFrame) -> None:
    """A pipeline that forgets deleted keys brings cancelled flights back: the feed has such cases."""
    cancelled = messages[messages["status"] == "CANCELLED"].drop_duplicates(KEYS, keep="last")
    older = messages[messages["status"] == "SCHEDULED"].merge(cancelled, on=KEYS, suffixes=("", "_cancelled"))
    overtaken = (older["sent_at"] > older["sent_at_cancelled"]) & (older["event_time"] < older["event_time_cancelled"])
    assert overtaken.any()


def test_a_flight_has_the_same_events_however_many_months_are_fed(events: pd.DataFrame) -> None:
    """Feeding more months changes nothing about the flights of the first."""
    longer = make_events(read_flights(2))
    pd.testing.assert_frame_equal(
        events, longer[longer["flight_date"] < "2013-02-01"].reset_index(drop=True), check_dtype=False
    )


def test_the_same_months_give_the_same_bytes(fed: tuple[Path, Feed], tmp_path: Path) -> None:
    """Two feeds of one month are equal file by file, also after an interrupted one."""
    folder, feed = fed
    left_behind = tmp_path / "data.partial" / "events" / "2012-12-30.json"
    left_behind.parent.mkdir(parents=True)
    left_behind.write_text("{")
    again = write_feed(tmp_path / "data", 1)
    assert feed == again
    assert digest(folder) == digest(tmp_path / "data")
    assert ["data"] == [path.name for path in tmp_path.iterdir()]


def test_the_files_hold_what_the_feed_says(fed: tuple[Path, Feed], messages: pd.DataFrame) -> None:
    """One line for each message, one row for each planned flight, one file for each reference table."""
    folder, feed = fed
    lines = [line for file in sorted(folder.glob("events/*.json")) for line in file.read_text().splitlines()]
    assert (27_004, len(messages), len(messages)) == (feed.flights, feed.messages, len(lines))
    assert feed.planned == len(pd.read_parquet(folder / "schedule"))
    assert ["airlines", "airports", "planes"] == sorted(path.name for path in (folder / "reference").iterdir())
    assert {"status", "event_time", "sent_at"} == set(json.loads(lines[0])) & {"status", "event_time", "sent_at"}


def test_a_line_has_the_fields_that_are_known_and_no_others(fed: tuple[Path, Feed]) -> None:
    """Numbers are integers, times are ISO 8601 in UTC, and unknown fields are omitted."""
    folder, _ = fed
    lines = (folder / "events" / "2013-01-02.json").read_text().splitlines()
    departed = next(line for line in map(json.loads, lines) if line["status"] == "DEPARTED" and line["flight"] == 4131)
    expected = {
        "sent_at": "2013-01-02T00:00:01Z",
        "status": "DEPARTED",
        "event_time": "2013-01-01T23:59:43Z",
        "flight_date": "2013-01-01",
        "carrier": "EV",
        "flight": 4131,
        "origin": "EWR",
        "dest": "RIC",
        "scheduled_departure": "2013-01-02T00:00:00Z",
        "distance": 277,
        "tailnum": "N11544",
        "dep_delay": -1,
    }
    assert expected == departed


@pytest.mark.parametrize("months", [0, 13, -1])
def test_a_number_of_months_that_the_data_lacks_is_refused(months: int, tmp_path: Path) -> None:
    """Nothing is written for months outside of 1 to 12, and the error gives the valid range."""
    with pytest.raises(UserError) as caught:
        write_feed(tmp_path / "data", months)
    assert ("DEMO_MONTHS_INVALID", {"months": months}) == (caught.value.condition, caught.value.fields)
    assert [] == list(tmp_path.iterdir())
