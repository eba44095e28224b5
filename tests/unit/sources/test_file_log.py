"""The list of files: exact after every stop, with an index that costs no more memory and time as the list grows."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from framework.foundation.errors import OperationError
from framework.foundation.failpoints import arm, disarm
from framework.foundation.files.storage import LocalStorage
from framework.sources.cloud_files.files.file_log import FileLog
from framework.sources.cloud_files.files.known_files import ListLimits
from framework.sources.cloud_files.files.local_listing import (
    FoundFile,
)
from tests.support.seeds import fresh_seed


class CountingStorage(LocalStorage):
    """Counts the characters that are read and written, by the name of the folder."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.read: Counter[str] = Counter()
        self.written: Counter[str] = Counter()

    def read_text(self, path: str) -> str | None:
        """Count and read."""
        text = super().read_text(path)
        self.read[Path(path).parent.name] += len(text or "")
        return text

    def write_text(self, path: str, text: str) -> None:
        """Count and write."""
        self.written[Path(path).parent.name] += len(text)
        super().write_text(path, text)


def files(*names: str, size: int = 1) -> list[FoundFile]:
    """Files of these names."""
    return [FoundFile(uri=f"file:/{name}", size=size, modified_ms=2) for name in names]


def stop() -> None:
    """Die as a killed process does."""
    raise KeyboardInterrupt


SHORT = ListLimits(segment=9, segments=4, pending=3, part=8)
"""Few files pass through segments, runs and parts of all kinds."""


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    disarm()


def opened(root: Path, storage: LocalStorage | None = None, limits: ListLimits = SHORT) -> FileLog:
    """The list as a new process reads it."""
    return FileLog(storage or LocalStorage(str(root)), str(root / "log"), limits).load()


def indexed(root: Path, storage: LocalStorage | None = None, limits: ListLimits = SHORT) -> FileLog:
    """The list as a new process writes it."""
    log = opened(root, storage, limits)
    log.index()
    return log


def test_the_list_only_grows_and_the_start_is_recorded_once(tmp_path: Path) -> None:
    """Numbers stay, also while segments are merged; passed over files are known and not read."""
    assert opened(tmp_path).is_new
    arm("cloud_files.before_start", action=stop)
    with pytest.raises(KeyboardInterrupt):
        opened(tmp_path).begin(files("old", "older"))
    disarm()
    assert opened(tmp_path).is_new
    opened(tmp_path).begin(files("old"))
    expected = ["old"]
    for number in range(140):
        indexed(tmp_path, limits=ListLimits()).append(files(f"a{number}", f"b{number}"))
        expected += [f"a{number}", f"b{number}"]
    final = opened(tmp_path)
    assert final.between(0, final.last) == files(*expected)
    assert final.between(3, 5) == files(*expected[3:5])
    assert (final.first_unread, final.last) == (2, 281)
    assert final.unseen([file.uri for file in files("old", "new", "b139")]) == ["file:/new"]
    assert len(list((tmp_path / "log").iterdir())) < 80
    with pytest.raises(OperationError) as raised:
        final.between(0, 282)
    assert raised.value.condition == "CLOUD_FILES_LIST_TOO_SHORT"


@pytest.mark.parametrize("turn", range(2))
def test_any_history_with_kills_has_each_file_once_with_its_newest_state(tmp_path: Path, turn: int) -> None:
    """Processes that are killed at any write, merge or deletion, against a list in memory."""
    seed = (int(os.environ.get("SLUICE_SEED", "0")) or fresh_seed()) + turn
    print(f"SLUICE_SEED={seed}")  # noqa: T201 - pytest shows it with a failure
    random = Random(seed)  # noqa: S311 - the seed makes the history repeatable
    opened(tmp_path).begin([])
    expected: list[FoundFile] = []
    for _ in range(60):
        point = random.choice(
            ("storage.before_replace", "cloud_files.after_files", "cloud_files.after_merge", "cloud_files.after_known")
        )
        arm(point, nth=random.randint(1, 12), action=stop)
        try:
            log = indexed(tmp_path, limits=replace(SHORT, searched=random.choice((0, 1, 99))))
            for _ in range(random.randint(1, 3)):
                names = random.sample(range(400), random.randint(1, 30))
                found = [each for name in names for each in files(f"f{name}", size=random.randint(1, 3))]
                chosen = random.choice((log.changed, new_of(log)))(found)
                assert chosen == expected_new(expected, found, chosen)
                log.append(chosen)
                expected += chosen
        except KeyboardInterrupt:
            disarm()
            kept = opened(tmp_path)
            stored = kept.between(0, kept.last)
            assert stored[: len(expected)] == expected
            expected = stored
        disarm()
    final = opened(tmp_path)
    newest = {file.uri: file for file in expected}
    assert final.between(0, final.last) == expected
    assert final.changed(list(newest.values())) == []
    assert final.unseen([*newest, "file:/never"]) == ["file:/never"]
    bigger = [replace(file, size=9) for file in newest.values()]
    assert final.changed(bigger) == bigger


def new_of(log: FileLog) -> Callable[[list[FoundFile]], list[FoundFile]]:
    """The question of a source without `allowOverwrites`."""

    def new(found: list[FoundFile]) -> list[FoundFile]:
        unseen = set(log.unseen([file.uri for file in found]))
        return [file for file in found if file.uri in unseen]

    return new


def expected_new(
    known: Sequence[FoundFile], found: Sequence[FoundFile], chosen: Sequence[FoundFile]
) -> list[FoundFile]:
    """The answer to either of the questions, from a list in memory."""
    newest = {file.uri: file for file in known}
    unseen = [file for file in found if file.uri not in newest]
    return unseen if chosen == unseen else [file for file in found if newest.get(file.uri) != file]


def test_an_index_of_another_list_is_rebuilt(tmp_path: Path) -> None:
    """A list that was restored from a backup ends before its index: its files are found again, and none is doubled."""
    opened(tmp_path).begin([])
    indexed(tmp_path).append(files("a", "b", "c", "d"))
    before = {path: path.read_text() for path in (tmp_path / "log").iterdir()}
    indexed(tmp_path).append(files("lost1", "lost2", "lost3", "lost4", "lost5"))
    for path in (tmp_path / "log").iterdir():
        path.unlink()
    for path, text in before.items():
        path.write_text(text)
    log = indexed(tmp_path)
    assert log.unseen(["file:/a", "file:/lost1"]) == ["file:/lost1"]
    log.append(files("e", "lost3", "f", "g", "h", "i"))
    again = indexed(tmp_path)
    assert again.unseen([f"file:/{name}" for name in ("a", "lost1", "lost3", "i")]) == ["file:/lost1"]


def test_a_reader_follows_a_writer_that_merges(tmp_path: Path) -> None:
    """Segments and runs that were merged since the list was looked up are found under their new names."""
    opened(tmp_path).begin([])
    writer = indexed(tmp_path)
    for number in range(3):
        writer.append(files(*(f"{number}-{part}" for part in range(5))))
    reader, late = opened(tmp_path), opened(tmp_path)
    assert reader.unseen(["file:/0-0"]) == []
    for number in range(3, 40):
        writer.append(files(f"{number}-0", f"{number}-1"))
    assert reader.unseen(["file:/0-1", "file:/39-1", "file:/x"]) == ["file:/x"]
    assert late.unseen(["file:/0-1", "file:/39-1", "file:/x"]) == ["file:/x"]
    assert reader.between(0, 5) == files(*(f"0-{part}" for part in range(5)))
    (tmp_path / "log" / min(path.name for path in (tmp_path / "log").iterdir())).unlink()
    with pytest.raises(OperationError) as raised:
        opened(tmp_path)
    assert raised.value.condition == "STORED_FILE_DAMAGED"


def test_a_reader_that_a_writer_overtakes_again_and_again_reads_the_list_itself(tmp_path: Path) -> None:
    """Whatever it looks up in the index or in the list was merged in between, two or three times in a row."""

    class Overtaken(LocalStorage):
        """What a writer has merged when it is read: the first parts of the index, and the first segments."""

        def __init__(self, root: str) -> None:
            super().__init__(root)
            self.gone = Counter(log=3, log_known=2)

        def read_text(self, path: str) -> str | None:
            """Read, or find nothing."""
            kind = Path(path).parent.name
            if Path(path).name == "start" or not self.gone[kind]:
                return super().read_text(path)
            self.gone[kind] -= 1
            return None

    opened(tmp_path).begin([])
    writer = indexed(tmp_path)
    for number in range(60):
        writer.append(files(f"{number}-0", f"{number}-1"))
    rarely = replace(SHORT, searched=1)
    for ask in (
        lambda log: log.unseen(["file:/0-1", "file:/59-1", "file:/x"]),
        lambda log: [file.uri for file in log.changed(files("0-1", "59-1", "x"))],
    ):
        storage = Overtaken(str(tmp_path))
        assert ask(opened(tmp_path, storage, rarely)) == ["file:/x"]
        assert storage.gone.total() == 0


def test_an_update_reads_and_writes_no_more_of_a_long_list(tmp_path: Path) -> None:
    """Ten new files of a list with 300,000: a part of the index is read, and nothing of it is written again."""
    opened(tmp_path).begin([])
    log = indexed(tmp_path, limits=ListLimits())
    log.append(files(*(f"in/{number}" for number in range(300_000))))
    costs = []
    for number in range(3):
        storage = CountingStorage(str(tmp_path))
        log = indexed(tmp_path, storage, ListLimits())
        new = files(*(f"in/new{number}-{each}" for each in range(10)))
        assert log.unseen([file.uri for file in new]) == [file.uri for file in new]
        log.append(new)
        costs.append((storage.read["log_known"], storage.read["log"], storage.written.total()))
    index = sum(path.stat().st_size for path in (tmp_path / "log_known").iterdir())
    assert index > 10_000_000
    assert all(read <= 10 * index / 8 and listed < 2_000 and written < 1_000 for read, listed, written in costs), costs
    assert json.loads((tmp_path / "log" / "start").read_text()) == {"format": 1, "first": 1}
