"""Pages of the event log: together they are the whole log, whatever happens to the index and the log meanwhile."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from framework.foundation.errors import UserError
from framework.foundation.files.local_storage import LocalStorage
from framework.record.event_index import open_index
from framework.record.events import Event, EventLevel, EventType, MaturityLevel, Origin
from framework.record.pages import EventPages
from framework.record.reader import file_path, read_events

START = 1_767_225_600  # 2026-01-01T00:00:00Z
LEVELS = [*EventLevel]
READER = """
import sys
from pathlib import Path
from framework.foundation.files.local_storage import LocalStorage
from framework.record.pages import EventPages

print(*(event.id for event in EventPages(LocalStorage(sys.argv[1]), Path(sys.argv[2])).page(limit=None).events))
"""


class Log:
    """An event log whose files are written line by line."""

    def __init__(self, root: Path) -> None:
        self.storage = LocalStorage(str(root))
        self.seconds = 0
        self.count = 0

    def line(self, update: str, seconds: float | None = None) -> str:
        """The next event of an update, a second after the last one."""
        self.seconds += 1
        self.count += 1
        at = self.seconds if seconds is None else seconds
        event = Event(
            id=f"{update}-{self.count}",
            sequence=self.count,
            origin=Origin(
                pipeline_id="p", pipeline_name="p", update_id=update, dataset_name=f"main.s.t{self.count % 3}"
            ),
            timestamp=f"2026-01-01T{int(at) // 3600:02}:{int(at) // 60 % 60:02}:{at % 60:06.3f}Z",
            message=f"é {self.count}",
            level=LEVELS[self.count % 4],
            maturity_level=MaturityLevel.STABLE,
            error=None,
            details={"text": "\u2028" * (self.count % 5)},
            event_type=[*EventType][self.count % 4],
        )
        return event.to_line()

    def path(self, name: str) -> Path:
        """The path of a file of the log."""
        return Path(file_path(self.storage, f"{name}.jsonl"))

    def write(self, name: str, text: str, seconds: float = 0.5) -> None:
        """Append a text to a file, which gets a time that is so much later than the last event."""
        self.path(name).parent.mkdir(parents=True, exist_ok=True)
        with self.path(name).open("a", encoding="utf-8", newline="") as file:
            file.write(text)
        os.utime(self.path(name), (0, START + self.seconds + seconds))

    def add(self, name: str, count: int) -> None:
        """Append events of an update to its file."""
        self.write(name, "".join(self.line(name.partition("_")[0]) for _ in range(count)))


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """An empty log."""
    return Log(tmp_path / "storage")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache that is not there yet."""
    return tmp_path / "cache"


def backwards(pages: EventPages, sizes: Iterator[int]) -> Iterator[list[Event]]:
    """All pages from the last one to the first, each oldest event first."""
    before: str | None = None
    while True:
        page = pages.page(before, limit=next(sizes))
        yield [*page.events]
        before = page.before
        if before is None:
            return


def ids(events: list[Event]) -> list[str]:
    """The ids of events."""
    return [event.id for event in events]


@pytest.mark.parametrize("seed", range(4))
def test_pages_are_together_the_whole_log_while_a_writer_appends(log: Log, cache: Path, seed: int) -> None:
    """Pages of random sizes have each event once, in the log's order; what is written meanwhile comes after them."""
    chance = random.Random(seed)  # noqa: S311 - a test's choice
    for number in range(6):
        log.add(f"u{number}", chance.randrange(1, 40))
        log.add(f"u{number}_00001", chance.randrange(1, 40))
        log.write(f"u{number}", "torn" if number == 5 else "torn\n")
    expected = ids(read_events(log.storage))
    found: list[str] = []
    pages = EventPages(log.storage, cache)
    for page in backwards(pages, iter(lambda: chance.randrange(1, 30), None)):
        found = [*ids(page), *found]
        log.write("u9", log.line("u9")[: chance.randrange(1, 400)])  # a line without its end, or with the next one
        log.write("u9", f"\n{log.line('u9')}")
    assert expected == found
    assert ids([*pages.page(limit=None).events]) == ids(read_events(log.storage))
    assert len(found) < log.count


def test_conditions_are_those_of_all_readers(log: Log, cache: Path) -> None:
    """Type, level, dataset and update select the same events as `read_events` does."""
    log.add("u1", 60)
    log.add("u2", 60)
    pages = EventPages(log.storage, cache)
    for wanted in (
        {"type": EventType.USER_ACTION}, {"level": "WARN"}, {"dataset": "t1"}, {"update_id": "u2"}, {"dataset": "none"},
        {"type": "user_action", "level": "METRICS", "dataset": "s.t2", "update_id": "u1"},
    ):  # fmt: skip
        every = ids(read_events(log.storage, **wanted))
        last = pages.page(limit=4, **wanted)
        assert every[-4:] == ids([*last.events])
        assert last.before == (last.events[0].id if len(every) > 4 else None)
        if last.before is not None:
            assert every[:-4][-4:] == ids([*pages.page(last.before, limit=4, **wanted).events])
    with pytest.raises(UserError) as fault:
        pages.page("gone")
    assert fault.value.condition == "EVENT_NOT_FOUND"


def test_a_torn_line_is_no_event_until_it_is_complete(log: Log, cache: Path) -> None:
    """A line without an end is left out; complete, it is the next event."""
    log.add("u1", 3)
    line = log.line("u1")
    log.write("u1", line[:40])
    pages = EventPages(log.storage, cache)
    assert len(pages.page().events) == 3
    log.write("u1", line[40:])
    assert ids([*pages.page().events]) == ["u1-1", "u1-2", "u1-3", "u1-4"] == ids(read_events(log.storage))


def test_files_that_are_deleted_or_replaced_are_read_again(log: Log, cache: Path) -> None:
    """Events of a deleted file are gone, and another file of the same name has its own, longer, shorter or as long."""
    log.add("u1", 5)
    log.add("u2", 5)
    pages = EventPages(log.storage, cache)
    assert len(pages.page().events) == 10
    log.path("u1").unlink()
    assert len(pages.page().events) == 5
    for count in (9, 2):
        log.path("u2").unlink()
        log.add("u2", count)
        assert ids([*pages.page().events]) == ids(read_events(log.storage))
        assert len(pages.page().events) == count
    size, modified_at = log.path("u2").stat().st_size, log.path("u2").stat().st_mtime
    log.path("u2").write_text(log.path("u2").read_text("utf-8").replace("u2-", "u3-"), "utf-8")
    os.utime(log.path("u2"), (0, modified_at))
    assert log.path("u2").stat().st_size == size
    assert [each[:2] for each in ids([*pages.page().events])] == ["u3", "u3"]


def test_the_order_follows_a_clock_that_was_set_back(log: Log, cache: Path) -> None:
    """Events from after the time of their file are where `read_events` has them, also when the file's time changes."""
    log.write("u1", "".join(log.line("u1", seconds=5_000 + number) for number in range(3)))
    log.add("u2", 3)
    pages = EventPages(log.storage, cache)
    for seconds in (0.5, 9_000.0, 1.5):
        log.write("u1", "", seconds=seconds)
        assert ids([*pages.page().events]) == ids(read_events(log.storage))
        last = pages.page(limit=2)
        assert ids([*pages.page(last.before, limit=2).events]) == ids(read_events(log.storage))[2:4]


def test_an_index_that_can_not_be_used_is_made_again(log: Log, cache: Path) -> None:
    """A deleted, damaged, unfinished, foreign or read-only index, or one of another format, changes no page."""
    log.add("u1", 300)
    pages = EventPages(log.storage, cache)
    expected = ids(read_events(log.storage))
    assert ids([*pages.page(limit=None).events]) == expected

    def path() -> Path:
        (found,) = cache.glob("events/*/*.sqlite")
        return found

    def damage(offset: int) -> None:
        content = bytearray(path().read_bytes())
        content[offset : offset + 4096] = b"\xff" * len(content[offset : offset + 4096])
        path().write_bytes(content)

    def change(statement: str) -> None:
        database = sqlite3.connect(path())
        database.execute(statement)
        database.commit()
        database.close()

    for spoil in (
        lambda: shutil.rmtree(cache),
        lambda: path().write_bytes(b""),
        lambda: path().write_bytes(b"no index" * 1000),
        lambda: damage(0),
        lambda: damage(4096 * 8),
        lambda: path().write_bytes(path().read_bytes()[: 4096 * 9]),
        lambda: change("PRAGMA user_version = 99"),
        lambda: change("UPDATE log SET root = '/another'"),
        lambda: change("DROP TABLE events"),
        lambda: change("UPDATE events SET start = start + 1"),
        lambda: change("UPDATE events SET id = 'x' || id"),
        lambda: (path().parent / "0.sqlite").write_bytes(path().read_bytes()[:1000]),
    ):
        spoil()
        assert ids([*pages.page(limit=None).events]) == expected
        assert ids([*pages.page(limit=7).events]) == expected[-7:]
        assert path().stat().st_size > 0
    shutil.rmtree(cache)
    cache.write_text("no folder", "utf-8")
    assert ids([*pages.page(limit=7).events]) == expected[-7:]


def test_readers_that_make_the_index_together_see_the_whole_log(log: Log, cache: Path) -> None:
    """Threads and processes that read an unknown log at once have the same pages, and leave one index."""
    for number in range(5):
        log.add(f"u{number}", 400)
    expected = ids(read_events(log.storage))
    arguments = [sys.executable, "-c", READER, log.storage.root, str(cache)]
    others = [subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    with ThreadPoolExecutor(4) as pool:
        pages = [pool.submit(EventPages(log.storage, cache).page, limit=None) for _ in range(4)]
        assert [ids([*page.result().events]) for page in pages] == [expected] * 4
    assert [other.communicate(timeout=60)[0].split() for other in others] == [expected] * 2
    assert ids([*EventPages(log.storage, cache).page(limit=3).events]) == expected[-3:]
    assert len([*cache.glob("events/*/*.sqlite")]) == 1


def test_an_index_has_only_what_is_new_to_read(log: Log, cache: Path) -> None:
    """A file that has not changed is not read again, and of one that has grown only the new lines."""
    log.add("u1", 50)
    log.add("u2", 50)
    EventPages(log.storage, cache).page()
    log.add("u2", 1)
    read: list[tuple[str, int]] = []

    class Watched(LocalStorage):
        """A storage that records what is read."""

        def read_after(self, path: str, position: int) -> bytes:
            """The bytes behind a position."""
            found = super().read_after(path, position)
            read.append((Path(path).stem, len(found)))
            return found

    with open_index(Watched(log.storage.root), cache) as index:
        index.refresh()
    assert {name for name, _ in read} == {"u2"}
    assert sum(size for _, size in read) < log.path("u2").stat().st_size / 10
