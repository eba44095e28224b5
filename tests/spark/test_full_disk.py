"""A disk that is full during an update: the update and `sluice doctor` say which one, and the next update goes on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from framework import pipelines as dp
from framework.foundation.errors import SluiceError
from framework.record.events import EventType
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="only root of Linux can mount a small file system"
)


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of its own in the place of a folder, with what the folder has, also afterwards."""
    other = folder.with_name(f"{folder.name}-disk")
    other.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(other)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("this machine mounts no file system")
    try:
        shutil.copytree(folder, other, dirs_exist_ok=True)
        subprocess.run(["mount", "--move", str(other), str(folder)], check=False)
        if not folder.is_mount():  # a mount that is shared can't be moved
            subprocess.run(["mount", "--bind", str(other), str(folder)], check=True)
        yield folder
        kept = folder.with_name(f"{folder.name}-kept")
        shutil.copytree(folder, kept)
    finally:
        for mount in (folder, other):
            if mount.is_mount():
                subprocess.run(["umount", "--lazy", str(mount)], check=True)
    shutil.rmtree(folder)
    kept.rename(folder)
    other.rmdir()


@contextmanager
def filled(disk: Path) -> Iterator[None]:
    """The disk without a free byte, until the block ends."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError:
                continue
    try:
        yield
    finally:
        ballast.unlink()


class Shop:
    """An append, AUTO CDC and a view over one source; each row is read by all of them."""

    def __init__(self, world: EngineWorld) -> None:
        self.world = world
        self.rows: list[tuple[int]] = []

    def declare(self) -> None:
        """The tables."""

        def rows() -> DataFrame:
            return self.world.spark.readStream.format("delta").load(self.world.source())

        dp.table(name="append")(rows)
        dp.create_streaming_table("keyed")
        dp.auto_cdc_flow(target="keyed", name="keyed", keys=["id"], sequence_by="id")(rows)

        @dp.materialized_view
        def view() -> DataFrame:
            return self.world.spark.read.table("append")

    def feed(self) -> None:
        """One more row in the source."""
        self.rows.append((len(self.rows) + 1,))
        self.world.feed(self.rows[-1:], "id LONG")

    def errors(self) -> list[SluiceError]:
        """The errors of an update that fails as one of a user's does, with retries."""
        try:
            result = self.world.pipeline(self.declare, development=False).run()
        except SluiceError as error:
            return [error]
        assert result.state is UpdateState.FAILED
        return [flow.error for flow in result.flows if flow.error is not None]

    def retries(self) -> int:
        """The flows that were queued for a retry, in all updates."""
        events = self.world.events(type=EventType.FLOW_PROGRESS)
        return sum("is retried" in event.message for event in events)


def test_a_full_disk_is_named_and_the_next_update_goes_on(interpreting: SparkSession, tmp_path: Path) -> None:
    """No retry waits for space; the place and its free bytes are named, and afterwards each row is there once."""
    shop = Shop(EngineWorld(interpreting, tmp_path))
    shop.feed()
    assert shop.world.pipeline(shop.declare).run().state is UpdateState.COMPLETED
    for part in ("storage", "storage/checkpoints", "storage/tables"):
        with small_disk(tmp_path / part) as disk:
            shop.feed()
            with filled(disk):
                errors = shop.errors()
                findings = shop.world.pipeline(shop.declare).doctor.examine().findings
            assert errors, part
            assert {error.condition for error in errors} == {"DISK_FULL"}
            for text in [*(error.what for error in errors), *(finding.cause for finding in findings)]:
                assert re.search(rf"\d bytes are free at {re.escape(str(disk))}", text), text
            assert {each.diagnosis.name for each in findings} == {"RESOURCES_EXHAUSTED"}
            assert shop.retries() == 0
            result = shop.world.pipeline(shop.declare).run()
            assert result.state is UpdateState.COMPLETED
            assert shop.world.pipeline(shop.declare).doctor.examine().findings == ()
        for table in ("append", "keyed", "view"):
            read = interpreting.read.format("delta").load(shop.world.path(table)).collect()
            assert sorted((row.id,) for row in read) == shop.rows, (part, table)
