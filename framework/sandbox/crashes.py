"""Crashes of a sandbox: its storage is left as `kill -9` leaves it at a moment of an update, in this process.

At that moment the storage is copied. Then the update is ended, and the copy is put back in its place. With one flow at
a time, nothing is written between the copy and a kill there.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from framework.engine.delta.table_version import forget_tables
from framework.foundation.errors import UserError
from framework.foundation.failpoints import arm_all, disarm
from framework.foundation.nearest import nearest_hint
from framework.run.update.results import UpdateResult
from framework.run.update.update import Update
from framework.sandbox.crash_points import MOMENTS, moment_of, moments_text

_COPY = "crashed-storage"


class CrashedError(Exception):
    """Ends an update at a failpoint, as a kill does."""


class _Crash:
    """A crash that a test asked for; as a context manager, it hides what an update raises that has crashed.

    Args:
        moment: when.
        nth: at which pass.
    """

    def __init__(self, moment: str, nth: int) -> None:
        self.moment, self.nth, self.left = moment, nth, nth
        self.happened = False
        self.passed = Counter[str]()

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> bool:
        return self.happened


class Crashes:
    """The crashes of one sandbox.

    Args:
        folder: the folder of the sandbox, for the copy.
        storage: the folder of the storage.
        restart: makes the sandbox load its modules again, as the next process does.
    """

    def __init__(self, folder: Path, storage: Path, restart: Callable[[], object]) -> None:
        self._copy, self._storage, self._restart = folder / _COPY, storage, restart
        self._wanted: _Crash | None = None

    @contextmanager
    def at(self, moment: str, *, nth: int = 1) -> Iterator[None]:
        """Kill the update of the block at a moment, as `kill -9` does; the rest of the block is not run.

        Args:
            moment: what is written then, such as `after-table-commit`; an unknown name lists all.
            nth: at which pass of it in the block.

        Raises:
            UserError: TEST_CRASH_UNKNOWN.
            AssertionError: the block did not come so far; it says which moments its updates passed.
        """
        if moment not in MOMENTS:
            hint = nearest_hint(moment, MOMENTS)
            raise UserError("TEST_CRASH_UNKNOWN", moment=moment, hint=hint, known=moments_text())
        assert self._wanted is None, "a block of `crash.at` is in another one"
        wanted = self._wanted = _Crash(moment, nth)
        try:
            with suppress(CrashedError):
                yield
        finally:
            self._wanted = None
        assert wanted.happened, _not_reached(wanted)

    def run(self, update: Update) -> UpdateResult:
        """Run an update of the sandbox, which may crash.

        Raises:
            CrashedError: it has; the storage is as a kill leaves it.
            SluiceError: as of `Update.run`.
        """
        wanted = self._wanted
        if wanted is None or wanted.happened:
            return update.run()
        result = self._until(wanted, update)
        if result is not None:
            return result
        self._put_back(update)
        raise CrashedError(wanted.moment)

    def _until(self, wanted: _Crash, update: Update) -> UpdateResult | None:
        """Run an update; return None if it has crashed."""
        update = replace(update, settings=replace(update.settings, parallel_flows=1))
        names, left = MOMENTS[wanted.moment].failpoints, wanted.left
        crash = partial(self._pass, wanted, update)
        arm_all({(name, number): crash for name in names for number in range(1, left + 1)})
        result = None
        try:
            with wanted:
                result = update.run()
        finally:
            wanted.passed.update(disarm())
        return None if wanted.happened else result

    def _pass(self, wanted: _Crash, update: Update) -> None:
        """Pass the moment, in the thread of the update or of one of its streams; kill the update if it is time."""
        wanted.left -= 1
        if wanted.happened or wanted.left > 0:
            return
        shutil.rmtree(self._copy, ignore_errors=True)
        shutil.copytree(self._storage, self._copy, copy_function=_copied, symlinks=True)
        wanted.happened = True
        update.stop.set()
        raise CrashedError(wanted.moment)

    def _put_back(self, update: Update) -> None:
        """Replace the storage by its copy; nobody holds its lock, because the copy is another file."""
        tables = {str(self._storage / log.parent.relative_to(root)) for root in (self._storage, self._copy)
                  for log in root.rglob("_delta_log")}  # fmt: skip
        shutil.rmtree(self._storage)
        self._copy.rename(self._storage)
        forget_tables(update.spark, sorted(tables))
        self._restart()


def _copied(source: str, target: str) -> Any:
    """Copy a file of the storage, unless it is a temporary one that has just gone."""
    with suppress(FileNotFoundError):
        return shutil.copy2(source, target)
    return target


def _not_reached(wanted: _Crash) -> str:
    """Return why a block did not crash, for those who read a failed test."""
    passed = Counter[str]()
    for failpoint, times in wanted.passed.items():
        moment = moment_of(failpoint)
        if moment is not None:
            passed[moment] += times
    often = f" {wanted.nth} times" if wanted.nth > 1 else ""
    lines = [f"  {moment}: {MOMENTS[moment].words} ({count} times)" for moment, count in passed.items()]
    said = "\n".join(["It passed:", *lines]) if lines else "No update of the block passed a moment at which it could."
    return f"The block was to crash at {wanted.moment}, which it did not pass{often}. {said}"
