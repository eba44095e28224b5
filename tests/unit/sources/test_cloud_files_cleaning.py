"""`cleanSource` without Spark: a file goes only after its commit and the retention, and every stop is repeated."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from framework.checkpoints.generations import GenerationStore
from framework.foundation.errors import OperationError
from framework.foundation.failpoints import arm, disarm
from framework.foundation.files.storage import LocalStorage
from framework.foundation.names import QualifiedName
from framework.sources.cloud_files.files.cleaning import Cleaner, CleaningState, removed_files
from framework.sources.cloud_files.files.file_log import FileLog
from framework.sources.cloud_files.files.listing import list_new
from framework.sources.cloud_files.files.local_listing import (
    NothingKnown,
)
from framework.sources.cloud_files.files.offsets import committed_files, log_folder, offset_text
from framework.sources.cloud_files.settings.given_options import parse_options
from framework.sources.cloud_files.settings.options import CloudFilesOptions
from framework.testing.manual_clock import ManualClock

DAY = 86_400


def _stop() -> None:
    raise KeyboardInterrupt


@dataclass(kw_only=True)
class World:
    """A folder of files, and a checkpoint that reads them."""

    root: Path
    clean: str = "DELETE"
    clock: ManualClock = field(default_factory=ManualClock)

    @property
    def options(self) -> CloudFilesOptions:
        """Options with a retention of 8 days."""
        given = {
            "cloudfiles.format": "text",
            "cloudfiles.cleansource": self.clean,
            "cloudfiles.cleansource.retentionduration": "8 days",
        }
        if self.clean == "MOVE":
            given["cloudfiles.cleansource.movedestination"] = str(self.root / "old")
        return parse_options(str(self.root / "in"), given, has_schema=True, zone="UTC")

    @property
    def storage(self) -> LocalStorage:
        """The pipeline's storage."""
        return LocalStorage(str(self.root / "storage"))

    @property
    def checkpoint(self) -> str:
        """The checkpoint of the flow."""
        return str(self.root / "storage" / "checkpoint")

    @property
    def log(self) -> FileLog:
        """The list of the files, as a new process reads it."""
        return FileLog(self.storage, f"{log_folder(self.checkpoint, 0)}/files").load()

    @property
    def cleaner(self) -> Cleaner:
        """A new process."""
        return Cleaner(
            spark=None,
            options=self.options,
            storage=self.storage,
            checkpoint=self.checkpoint,
            number=0,
            clock=self.clock,
        )

    def put(self, *names: str) -> None:
        """Write files; each contains its name."""
        for name in names:
            path = self.root / "in" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name, "utf-8")

    def find(self, *, passed_over: bool = False) -> None:
        """List new files, as a start does."""
        log = self.log
        if log.is_new:
            log.begin(list_new(None, self.options, NothingKnown()) if passed_over else ())
        log.append(list_new(None, self.options, log))

    def commit(self, batch: int, last: int) -> None:
        """Commit a batch that ends with a file, of the second of two sources."""
        self.storage.write_text(f"{self.checkpoint}/offsets/{batch}", f'v1\n{{}}\n{{"x":1}}\n{offset_text(last, 0)}')
        self.storage.write_text(f"{self.checkpoint}/commits/{batch}", "v1\n{}")

    def files(self, folder: str = "in") -> list[str]:
        """The files of a folder."""
        root = self.root / folder
        return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_files_go_after_their_commit_and_the_retention_only(tmp_path: Path) -> None:
    """Those of a batch that is planned, or that were there before the first start, or that changed, stay."""
    world = World(root=tmp_path)
    world.put("before")
    world.find(passed_over=True)
    world.put("a", "b", "changed")
    world.find()
    world.storage.write_text(f"{world.checkpoint}/offsets/0", f"v1\n{{}}\n{offset_text(4, 0)}")
    world.clock.sleep(30 * DAY)
    world.cleaner.clean(world.log)
    assert (world.files(), removed_files(world.storage, world.options.path)) == (["a", "b", "before", "changed"], "")
    world.commit(0, 4)
    assert world.cleaner.has_work(4)
    world.cleaner.clean(world.log)
    assert not world.cleaner.has_work(4)
    world.clock.sleep(4 * DAY)
    world.put("late", "changed more")
    (tmp_path / "in" / "changed").write_text("other", "utf-8")
    world.find()
    world.commit(1, 6)
    world.cleaner.clean(world.log)
    world.clock.sleep(4 * DAY)
    assert world.cleaner.has_work(6)
    world.cleaner.clean(world.log)
    assert world.files() == ["before", "changed", "changed more", "late"]
    world.clock.sleep(4 * DAY)
    world.cleaner.clean(world.log)
    assert world.files() == ["before", "changed"]
    assert not world.cleaner.has_work(6)
    assert removed_files(world.storage, world.options.path) == f"4 files of {tmp_path}/in were deleted by cleanSource"


def test_a_stop_between_any_two_effects_is_repeated(tmp_path: Path) -> None:
    """Files are moved once, below the same folders; an earlier file of the name stays; a plan never counts too few."""
    for nth, point in enumerate(["storage.before_replace"] * 4 + ["cloud_files.before_clean_mark"]):
        world = World(root=tmp_path / str(nth), clean="MOVE")
        world.put("a/b c", "x")
        world.find()
        (world.root / "old").mkdir()
        (world.root / "old" / "x").write_text("earlier", "utf-8")
        world.commit(0, 2)
        arm(point, nth=1 if nth == 4 else nth + 1, action=_stop)
        for _ in range(3):
            try:
                world.cleaner.clean(world.log)
            except KeyboardInterrupt:
                gone = 2 - len(world.files())
                text = removed_files(world.storage, world.options.path)
                assert gone == 0 or text.startswith("2 files"), (nth, gone, text)
            world.clock.sleep(9 * DAY)
        assert disarm()[point] >= 1
        kept = [name for name in world.files("old") if not name.startswith("x.")]
        moved = [name for name in world.files("old") if name.startswith("x.")]
        assert (world.files(), kept, len(moved)) == ([], ["a/b c", "x"], 1), nth
        assert (world.root / "old" / "x").read_text("utf-8") == "earlier"
        expected = f"2 files of {world.root}/in were moved to {world.root}/old by cleanSource"
        assert removed_files(world.storage, world.options.path) == expected


def test_a_folder_that_can_not_be_written_to_is_an_error(tmp_path: Path) -> None:
    """The destination is a file."""
    world = World(root=tmp_path, clean="MOVE")
    world.put("a")
    world.find()
    (tmp_path / "old").write_text("", "utf-8")
    world.commit(0, 1)
    world.cleaner.clean(world.log)
    world.clock.sleep(9 * DAY)
    with pytest.raises(OperationError) as raised:
        world.cleaner.clean(world.log)
    assert raised.value.condition == "CLOUD_FILES_CLEANING_FAILED"
    assert world.files() == ["a"]


def test_the_marks_of_commits_are_bounded_and_never_too_early() -> None:
    """Of ten thousand commits some thousand marks stay; no file is due before its own retention has passed."""
    state = CleaningState()
    for number in range(1, 10_001):
        state = state.seen(number, float(number))
    assert len(state.marks) <= 1000
    assert state.marks[-1] == (10_000, 10_000.0)
    for now in range(0, 10_200, 7):
        assert state.due(now, 100) <= max(now - 100, 0)
    assert state.due(10_100, 100) == 10_000


def test_the_commit_of_another_source_is_not_taken_for_its_own(tmp_path: Path) -> None:
    """A query has two sources, and the first one had no file in the committed batch: its new files stay."""
    world = World(root=tmp_path)
    world.put("a", "b", "c")
    world.find()
    world.storage.write_text(f"{world.checkpoint}/offsets/0", f"v1\n{{}}\n-\n{offset_text(3, 1)}")
    world.storage.write_text(f"{world.checkpoint}/commits/0", "v1\n{}")
    for _ in range(2):
        world.cleaner.clean(world.log)
        world.clock.sleep(9 * DAY)
    assert world.files() == ["a", "b", "c"]
    assert committed_files((offset_text(7, 0), offset_text(7, 0), '{"x": 1}', offset_text(3, 1))) == {0: 7, 1: 3}


def test_moved_files_of_one_name_and_time_replace_none_of_each_other(tmp_path: Path) -> None:
    """Three folders have the same name in their archive."""
    for name in ("a", "b", "c", "d"):
        world = World(root=tmp_path / name, clean="MOVE")
        world.put("x")
        (tmp_path / "archive").mkdir(exist_ok=True)
        (world.root / "old").symlink_to(tmp_path / "archive")
        (world.root / "in" / "x").write_text(name, "utf-8")
        os.utime(world.root / "in" / "x", (1, 1))
        world.find()
        world.commit(0, 1)
        world.cleaner.clean(world.log)
        world.clock.sleep(9 * DAY)
        world.cleaner.clean(world.log)
    assert sorted(path.read_text("utf-8") for path in (tmp_path / "archive").iterdir()) == ["a", "b", "c", "d"]


def test_a_rebuild_that_is_not_published_cleans_nothing(tmp_path: Path) -> None:
    """If it is given up, the table's own checkpoint still has to read the new files."""
    name = QualifiedName(catalog="main", schema="s", table="t")
    world = Rebuilt(root=tmp_path)
    generations = GenerationStore(world.storage)
    generations.begin(name, name, reason="first")
    world.number = generations.begin(name, name, reason="full refresh", staged=True).number
    world.put("a")
    world.find()
    world.commit(0, 1)
    for _ in range(2):
        world.cleaner.clean(world.log)
        world.clock.sleep(9 * DAY)
    assert world.files() == ["a"]
    generations.promote(name, name, world.number)
    world.cleaner.clean(world.log)
    assert world.files() == []


@dataclass(kw_only=True)
class Rebuilt(World):
    """A folder that a generation of a table reads."""

    number: int = 1

    @property
    def checkpoint(self) -> str:
        """The checkpoint of the generation."""
        name = QualifiedName(catalog="main", schema="s", table="t")
        return GenerationStore(self.storage).path(name, name, self.number)
