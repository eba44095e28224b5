"""What an airport would send: the schedule, then one event for each change of a flight.

All events of a flight have different event times, so event time alone orders them:

- SCHEDULED, 6 to 30 hours before departure, for flights that are new or moved since the schedule was made;
- CANCELLED and SCHEDULED again, 5 and 4 hours before, for the few flights that were called off by mistake;
- SCHEDULED shortly before a CANCELLED, for the flights that were put off before they were called off;
- DEPARTED when the flight left, ARRIVED when it was at the gate;
- CANCELLED, at most 3 hours before departure, for the flights that never left (they have no departure time).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

Mask = npt.NDArray[np.bool_]
KEYS = ["flight_date", "carrier", "flight", "origin"]
SCHEDULE_COLUMNS = [*KEYS, "dest", "scheduled_departure", "distance"]
EVENT_COLUMNS = ["status", "event_time", *SCHEDULE_COLUMNS, "tailnum", "dep_delay", "arr_delay", "air_time"]
_KNOWN = {
    "SCHEDULED": [*SCHEDULE_COLUMNS, "tailnum"],
    "DEPARTED": [*SCHEDULE_COLUMNS, "tailnum", "dep_delay"],
    "ARRIVED": EVENT_COLUMNS,
    "CANCELLED": [],
}
_ADDED = 0.02
_MOVED = 0.06
_CALLED_OFF_BY_MISTAKE = 0.004
_PUT_OFF = 0.3
_DIVERTED_MINUTES = 240

Hashes = npt.NDArray[np.uint64]
Fractions = npt.NDArray[np.float64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def hash_keys(keys: pd.DataFrame) -> Hashes:
    """One 64-bit hash for each row."""
    return np.asarray(pd.util.hash_pandas_object(keys, index=False), dtype=np.uint64)


def draw(hashes: Hashes, salt: int) -> Fractions:
    """One number in [0, 1) for each hash; another salt gives an independent one (splitmix64)."""
    with np.errstate(over="ignore"):
        mixed = hashes + np.uint64(salt) * _GOLDEN
        mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX[0]
        mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX[1]
        mixed = mixed ^ (mixed >> np.uint64(31))
    fractions: Fractions = (mixed >> np.uint64(11)).astype(np.float64) / float(1 << 53)
    return fractions


def make_schedule(flights: pd.DataFrame) -> pd.DataFrame:
    """The schedule as it was before the year began: some flights are not in it yet, some have another time.

    Args:
        flights: as `source_data.read_flights` gives them.

    Returns:
        One row for each planned flight, with `SCHEDULE_COLUMNS`.
    """
    fate = draw(hash_keys(flights[KEYS]), 1)
    shift = pd.to_timedelta(np.where(fate < _MOVED, -45, 0), unit="min")
    schedule = flights.assign(scheduled_departure=flights["scheduled_departure"] + shift)
    return schedule.loc[fate >= _ADDED, SCHEDULE_COLUMNS].reset_index(drop=True)


def make_events(flights: pd.DataFrame) -> pd.DataFrame:
    """Every change of the flights, in order of event time.

    Args:
        flights: as `source_data.read_flights` gives them.

    Returns:
        One row for each event, with `EVENT_COLUMNS`. SCHEDULED carries no figures yet, DEPARTED lacks those
        of the arrival, CANCELLED has the key only.
    """
    hashes = hash_keys(flights[KEYS])
    fate = draw(hashes, 1)
    never_left = flights["dep_time"].isna().to_numpy()
    mistaken = ~never_left & (draw(hashes, 2) < _CALLED_OFF_BY_MISTAKE)
    put_off = never_left & (draw(hashes, 9) < _PUT_OFF)
    planned = flights["scheduled_departure"]
    called_off = planned - _between(hashes, 6, 0, 3 * 60)
    left = planned + pd.to_timedelta(flights["dep_delay"].fillna(0).astype("int64"), unit="min")
    flown = flights["air_time"].fillna(_DIVERTED_MINUTES).astype("int64")
    events = pd.concat(
        [
            _select(flights, fate < _MOVED, "SCHEDULED", planned - _between(hashes, 3, 6 * 60, 30 * 60)),
            _select(flights, mistaken, "CANCELLED", planned - _between(hashes, 4, 5 * 60, 6 * 60)),
            _select(flights, mistaken, "SCHEDULED", planned - _between(hashes, 5, 4 * 60, 5 * 60)),
            _select(flights, never_left, "CANCELLED", called_off),
            _select(flights, put_off, "SCHEDULED", called_off - _between(hashes, 10, 1, 20)),
            _select(flights, ~never_left, "DEPARTED", left + _between(hashes, 7, 0, 1)),
            _select(
                flights,
                ~flights["arr_time"].isna().to_numpy(),
                "ARRIVED",
                left + pd.to_timedelta(flown, unit="min") + _between(hashes, 8, 10, 30),
            ),
        ],
        ignore_index=True,
    )
    return events.sort_values(["event_time", *KEYS], kind="stable", ignore_index=True)


def _between(hashes: Hashes, salt: int, shortest: int, longest: int) -> pd.TimedeltaIndex:
    """A time between two numbers of minutes for each flight, in whole seconds, the longest not reached."""
    seconds = (shortest + draw(hashes, salt) * (longest - shortest)) * 60
    return pd.to_timedelta(seconds.astype(np.int64), unit="s")


def _select(flights: pd.DataFrame, chosen: Mask, status: str, event_time: pd.Series) -> pd.DataFrame:
    """The events of one kind, without what is not known yet when they happen."""
    events = flights.assign(status=status, event_time=event_time).loc[chosen, EVENT_COLUMNS]
    known = {"status", "event_time", *KEYS, *_KNOWN[status]}
    unknown = [column for column in EVENT_COLUMNS if column not in known]
    return events.assign(**{column: events[column].mask(np.full(len(events), fill_value=True)) for column in unknown})
