"""Random histories for AUTO CDC: hundreds of small worlds in one table, dealt out over few batches.

Each world has a number, which is part of its keys, so one merge tests all of them at once. Values are
`a` and a struct `n` of `b` and `c`; all are few, so that ties, repeats and returns are common. Keys and values
are symbols here; `TypedHistories` writes them as values of types that are drawn, and reads them back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tests.support.cdc_draws import Alphabet, numbered
from tests.support.cdc_oracle import RANK, Event, Tie, Values, scd1, scd2, soft

FLOWS = ("changes", "other", "snapshot")
PLACES = ("cdc.after_tombstones", "cdc.after_events", "cdc.after_merge")
LISTS: tuple[tuple[str, ...] | None, ...] = (None, (), ("a",), ("n",), ("n.b",), ("a", "N.c"))
TRUNCATED = -1
"""The world of a truncate: it is of no world and touches all."""

Row = tuple[object, ...]
Authorship = Callable[["Dealt"], tuple[bool, ...]]


@dataclass(frozen=True, slots=True)
class Dealt:
    """One event of a world, as a row of a flow's source."""

    world: int
    flow: str
    operation: str
    key: str
    values: Values = (None, None, None)
    sequence: int = 0
    listed: tuple[str, ...] | None = None

    @property
    def symbols(self) -> tuple[str | None, ...]:
        """The key and the values; a truncate has no key."""
        return (None if self.world == TRUNCATED else self.key, *self.values)

    @property
    def told(self) -> Row:
        """Return the additional columns of the source's row."""
        listed = None if self.listed is None else list(self.listed)
        return (None if self.world == TRUNCATED else self.world, self.operation, self.sequence, listed)

    def event(self, authorship: Mapping[str, Authorship]) -> Event:
        """Return the event for the oracle."""
        point = (0, 0) if self.flow == "snapshot" else (1, self.sequence)
        if self.operation != "upsert":
            return Event(point, self.operation, self.key)
        return Event(point, self.operation, self.key, self.values, authorship[self.flow](self))


@dataclass(frozen=True, slots=True)
class TypedHistories:
    """Histories whose symbols represent values of drawn types.

    `alphabets` are those of the key, of `a`, and of `n.b` and `n.c`.
    """

    alphabets: tuple[Alphabet, ...]

    @property
    def ddl(self) -> str:
        """The schema of the flows' sources."""
        k, a, b, c = (alphabet.case.ddl for alphabet in self.alphabets)
        return f"test int, k {k}, a {a}, n struct<b: {b}, c: {c}>, op string, seq int, listed array<string>"

    def frame(self, session: SparkSession, events: Sequence[Dealt]) -> DataFrame:
        """Events as rows of a source."""
        spelled = numbered(self.alphabets, [event.symbols for event in events])
        rows = [(*event.told, *numbers) for event, numbers in zip(events, spelled, strict=True)]
        numbers = "test int, op string, seq int, listed array<string>, k int, a int, b int, c int"
        written = zip(self.alphabets, "kabc", strict=True)
        k, a, b, c = (alphabet.written(name) for alphabet, name in written)
        columns = ("test", f"{k} AS k", f"{a} AS a", f"struct({b} AS b, {c} AS c) AS n", "op", "seq", "listed")
        return session.createDataFrame(rows, numbers).selectExpr(*columns)

    def symbols(self, schema: StructType) -> list[str]:
        """The SQL of the symbols of a table's key and values."""
        nested = schema["n"].dataType
        assert isinstance(nested, StructType)
        types = (schema["k"].dataType, schema["a"].dataType, nested["b"].dataType, nested["c"].dataType)
        told = zip(self.alphabets, ("k", "a", "n.b", "n.c"), types, "kabc", strict=True)
        return [f"{alphabet.read(value, each)} AS {name}" for alphabet, value, each, name in told]

    def __str__(self) -> str:
        return "\n".join(f"  {name}: {told}" for name, told in zip(("k", "a", "b", "c"), self.alphabets, strict=True))


def random_from(seed: int) -> Random:
    """The random choices of a seed."""
    return Random(seed)  # noqa: S311 - tests need choices that can be repeated, no secrets


def writes_all(_: Dealt) -> tuple[bool, ...]:
    """Return True for every value."""
    return (True, True, True)


def writes_values(dealt: Dealt) -> tuple[bool, ...]:
    """Return for each value whether the event writes it: if it is not NULL."""
    return tuple(value is not None for value in dealt.values)


def writes_listed(dealt: Dealt) -> tuple[bool, ...]:
    """Return for each value whether the event's list has it or a struct around it; without a list, True."""
    names = [{"a"}, {"n", "n.b"}, {"n", "n.c"}]
    return tuple(dealt.listed is None or not mine.isdisjoint(n.lower() for n in dealt.listed) for mine in names)


@dataclass(frozen=True, slots=True)
class Turn:
    """One batch of one flow, and its delivery.

    `place` is the failpoint that kills the first try; with `is_late` the next turn, of another flow, is applied
    before the second try. `repeated`: the applied batch is delivered once more; `anew`: with the number of a
    new generation.
    """

    flow: str
    events: tuple[Dealt, ...]
    place: str | None = None
    is_late: bool = False
    repeated: bool = False
    anew: bool = False


@dataclass(frozen=True, slots=True)
class History:
    """All worlds' events, by turn."""

    turns: tuple[Turn, ...]
    worlds: int
    authorship: Mapping[str, Authorship] = field(default_factory=dict)

    def events(self, world: int) -> list[Event]:
        """Return the events of one world."""
        dealt = [event for turn in self.turns for event in turn.events if event.world in {world, TRUNCATED}]
        return [event.event(self.authorship) for event in dealt]

    def told(self, world: int) -> str:
        """One world's turns, to be read by a human."""
        turns = [[e for e in turn.events if e.world in {world, TRUNCATED}] for turn in self.turns]
        lines = [f"  {turn.flow}{_how(turn)}: {_list(mine)}" for turn, mine in zip(self.turns, turns, strict=True)]
        return "\n".join(lines)


def _how(turn: Turn) -> str:
    parts = [
        f"dies {turn.place}" if turn.place else "",
        "late" if turn.is_late else "",
        "twice" if turn.repeated else "",
    ]
    told = ", ".join(part for part in parts if part)
    return f" ({told})" if told else ""


def _list(events: Sequence[Dealt]) -> str:
    texts = []
    for event in events:
        values = "/".join(value or "_" for value in event.values)
        listed = "" if event.listed is None else f"{{{','.join(event.listed)}}}"
        mark = {"upsert": f"{event.key}={values}{listed}", "delete": f"-{event.key}", "truncate": "!"}[event.operation]
        texts.append(f"{mark}@{event.sequence}")
    return ", ".join(texts) or "-"


def deal(random: Random, *, worlds: int, truncating: bool, authorship: Mapping[str, Authorship]) -> History:
    """Return a history: each failpoint kills once, one batch is a snapshot, some batches and events are repeated."""
    flows = ["snapshot", "other", "changes", "changes"]
    random.shuffle(flows)
    places: list[str | None] = [*PLACES, *([None] * (len(flows) - len(PLACES)))]
    random.shuffle(places)
    hands: dict[int, list[Dealt]] = defaultdict(list)
    for world in range(worlds):
        for event in _world(random, world):
            fitting = [turn for turn, flow in enumerate(flows) if flow == event.flow]
            for turn in random.sample(fitting, k=2 if len(fitting) > 1 and random.random() < 0.15 else 1):
                hands[turn].append(event)
    if truncating:
        for sequence in random.sample(range(7), k=2):
            turn = random.choice([turn for turn, flow in enumerate(flows) if flow == "changes"])
            hands[turn].append(Dealt(TRUNCATED, "changes", "truncate", "", sequence=sequence))
    for hand in hands.values():
        random.shuffle(hand)
    again = random.randrange(len(flows))
    turns = tuple(
        Turn(flow, tuple(hands[turn]), places[turn], random.random() < 0.5, turn == again, random.random() < 0.5)
        for turn, flow in enumerate(flows)
    )
    return History(turns, worlds, authorship)


def _world(random: Random, world: int) -> Iterable[Dealt]:
    top = random.choice((3, 6, 6, 12))
    snapshotted = set()
    for _ in range(random.randint(1, 9)):
        flow, key = random.choice(("changes", "changes", "changes", "other", "snapshot")), random.choice("kkm")
        operation = "delete" if random.random() < 0.25 and flow != "snapshot" else "upsert"
        values = tuple(random.choice((None, "x", "y")) for _ in range(3)) if operation == "upsert" else (None,) * 3
        if flow == "snapshot":
            if key in snapshotted:
                continue
            snapshotted.add(key)
        listed = random.choice(LISTS) if flow == "other" and operation == "upsert" else None
        yield Dealt(world, flow, operation, key, values, random.randint(0, top), listed)


def expected_rows(
    history: History,
    world: int,
    tie: Tie,
    *,
    scd_type: int,
    tracked: Sequence[int],
    rank: Mapping[str, int] = RANK,
    is_soft: bool = False,
) -> set[Row]:
    """Return the expected rows of a world: key, values and the flag of soft deletes, or for SCD type 2 the interval."""
    events = history.events(world)
    if is_soft:
        return {(key, *values, is_deleted) for key, values, is_deleted in soft(events, tie, rank)}
    if scd_type == 1:
        return {(key, *values) for key, values in scd1(events, tie, rank)}
    histories = scd2(events, tie, tracked, rank)
    versions = [(key, values, start[1], end and end[1]) for key, values, start, end in histories]
    return {(key, *values, start, end) for key, values, start, end in versions if end is None or start < end}
