"""What a test with the kit says is what an update on the same files does: the pipeline of flights, random batches."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from framework import Pipeline
from tests.support.kit_agreement import counts_of, events_of, tables_of
from tests.support.seeds import fresh_seed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPEC = Path(__file__).parents[2] / "pipelines" / "flights" / "pipeline.yml"
YEAR = datetime(2013, 1, 1)  # noqa: DTZ001 - the texts are UTC, as the session is
CARRIERS, AIRPORTS = ("UA", "B6", "zz"), ("EWR", "JFK", "LGA")
PLANNED = pa.schema([
    ("flight_date", pa.date32()), ("carrier", pa.string()), ("flight", pa.int32()), ("origin", pa.string()),
    ("dest", pa.string()), ("scheduled_departure", pa.timestamp("us", "UTC")), ("distance", pa.int32()),
])  # fmt: skip
SCHEDULE = """
    flight_date DATE, carrier STRING, flight INT, origin STRING, dest STRING, scheduled_departure TIMESTAMP,
    distance INT
"""
Rows = list[dict[str, Any]]


@dataclass
class Airport:
    """Random rows of the inputs of the pipeline, from a seed; keys, late events and NULLs repeat."""

    seed: int
    random: Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)  # noqa: S311 - no cryptography

    def key(self) -> dict[str, Any]:
        """A flight of a few, so that batches have events of the same one."""
        number = self.random.randrange(8)
        date = (YEAR + timedelta(days=number % 2)).date().isoformat()
        return {"flight_date": date, "carrier": CARRIERS[number % 3], "flight": number, "origin": AIRPORTS[number % 3]}

    def time(self, hours: int = 48) -> datetime:
        """A minute of the first days."""
        return YEAR + timedelta(minutes=self.random.randrange(60 * hours))

    def events(self, count: int) -> Rows:
        """Change events; heartbeats have no flight."""
        return [row for _ in range(count) for row in self._event()]

    def _event(self) -> Iterator[dict[str, Any]]:
        at = self.time()
        row: dict[str, Any] = {
            "status": self.random.choice(("SCHEDULED", "DEPARTED", "ARRIVED", "CANCELLED")),
            "event_time": at.isoformat(),
            "sent_at": (at + timedelta(minutes=self.random.choice((1, 59, 60, 61)))).isoformat(),
        }
        if self.random.random() < 0.2:
            yield row | {"status": "HEARTBEAT"}
            return
        delay = self.random.choice((None, -5, 0, 15, 90))
        row |= self.key() | {
            "dest": self.random.choice(("BOS", "ORD")), "tailnum": self.random.choice((None, "N1", "N2")),
            "distance": 200, "scheduled_departure": self.time().isoformat(), "dep_delay": delay, "arr_delay": delay,
            "air_time": 60,
        }  # fmt: skip
        yield row
        if self.random.random() < 0.2:
            yield row

    def schedule(self) -> Rows:
        """One row for each of some keys."""
        rows = {json.dumps(key): key for key in (self.key() for _ in range(6))}
        more = {"dest": "BOS", "scheduled_departure": self.time().isoformat(), "distance": 187}
        return [key | more for key in rows.values()]

    def weather(self, count: int) -> Rows:
        """Observations; some are impossible or incomplete."""
        choose = self.random.choice
        return [
            {
                "origin": choose(AIRPORTS),
                "time_hour": self.time().replace(minute=0).isoformat(),
                "temp": choose((None, 39.02)),
                "wind_dir": choose((None, 270.0)),
                "wind_speed": choose((None, 5.5, 25.0, 1048.36)),
                "precip": choose((0.0, 0.02)),
                "pressure": choose((None, 1012.0)),
                "visib": choose((1.0, 10.0)),
            }
            for _ in range(count)
        ]  # fmt: skip


REFERENCE: Mapping[str, Rows] = {
    "airlines": [{"carrier": "UA", "name": "United, Air"}, {"carrier": "B6", "name": 'Jet "Blue"'}],
    "airports": [
        {
            "faa": "BOS", "name": "Logan", "lat": 42.36, "lon": -71.0, "alt": 19, "tz": -5, "dst": "A",
            "tzone": "America/New_York",
        }
    ],
    "planes": [
        {
            "tailnum": "N1", "year": 2004, "type": "Fixed wing", "manufacturer": "EMBRAER", "model": "E", "engines": 2,
            "seats": 55, "speed": None, "engine": "Turbo-fan",
        }
    ],
}  # fmt: skip


@dataclass
class Files:
    """The real inputs: files as the airport writes them."""

    root: Path

    def lines(self, folder: str, name: str, rows: Rows) -> None:
        """Write a file of JSON lines."""
        path = self._path(folder, f"{name}.json")
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")

    def table(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write a reference table as CSV."""
        lines = [",".join(rows[0]), *(",".join(map(_cell, row.values())) for row in rows)]
        self._path(f"reference/{name}", f"{name}.csv").write_text("".join(f"{line}\n" for line in lines), "utf-8")

    def schedule(self, rows: Rows) -> None:
        """Write the schedule as Parquet."""
        typed = [
            row
            | {"flight_date": datetime.fromisoformat(row["flight_date"]).date()}
            | {"scheduled_departure": datetime.fromisoformat(f"{row['scheduled_departure']}+00:00")}
            for row in rows
        ]
        pq.write_table(pa.Table.from_pylist(typed, PLANNED), self._path("schedule", "planned.parquet"))

    def _path(self, folder: str, name: str) -> Path:
        path = self.root / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


def _cell(value: object) -> str:
    """A value as Spark reads it from a CSV file."""
    quoted = str(value).replace('"', '\\"')
    return "" if value is None else f'"{quoted}"' if isinstance(value, str) else str(value)


def seeds() -> list[int]:
    """One seed, that of `SLUICE_SEED`; with `SLUICE_FRESH_RUNS` as many as it says."""
    return [int(os.environ.get("SLUICE_SEED", "20"))] + [
        fresh_seed() for _ in range(int(os.environ.get("SLUICE_FRESH_RUNS", "0")))
    ]


@pytest.mark.parametrize("seed", seeds())
def test_the_flights_of_a_sandbox_are_those_of_an_update(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    """All tables, counts and events are equal after each of two batches, which are given, or written as files."""
    airport = Airport(seed)
    batches, weather = (airport.events(25), airport.events(10)), airport.weather(12)
    schedule = airport.schedule()
    files, storage = Files(tmp_path / "data"), tmp_path / "storage"
    files.schedule(schedule)
    files.lines("weather", "one", weather)
    for name, rows in REFERENCE.items():
        files.table(name, rows)
    real = Pipeline.from_spec(SPEC, storage=storage, parameters={"flights.data": str(files.root)}, spark=spark)

    with Pipeline.from_spec(SPEC, spark=spark).sandbox(tmp_path / "sandbox") as sandbox:
        sandbox.given("data/schedule", schedule, schema=SCHEDULE)
        sandbox.given("data/weather", weather)
        for name, rows in REFERENCE.items():
            sandbox.given(f"data/reference/{name}", rows)
        for number, batch in enumerate(batches):
            files.lines("events", str(number), batch)
            (sandbox.arrives if number else sandbox.given)("data/events", batch)
            expected = real.run()
            found = sandbox.update()

            assert counts_of(expected) == counts_of(found)
            assert tables_of(spark, str(storage)) == tables_of(spark, sandbox.storage)
        assert events_of(str(storage)) == events_of(sandbox.storage)
