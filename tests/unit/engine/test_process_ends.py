"""How processes ended is told as far as the system says it."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.engine.jvm.process_ends import end_by_code, kills_since, memory_kills


def test_the_processes_that_were_killed_for_lack_of_memory_are_those_that_the_system_counts(tmp_path: Path) -> None:
    """The counters of the container and of the machine; None without any of them."""
    (tmp_path / "events").write_text("oom 5\noom_kill 3\noom_group_kill 0\n", "utf-8")
    (tmp_path / "vmstat").write_text("nr_free_pages 9\noom_kill 4\n", "utf-8")
    assert memory_kills([tmp_path / "events", tmp_path / "vmstat", tmp_path / "none"]) == 7
    assert memory_kills([tmp_path / "none"]) is None


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        (1, 2, " Meanwhile the system has killed processes for lack of memory."),
        (2, 2, ""),
        (None, 2, ""),
        (2, None, ""),
    ],
)
def test_only_a_count_that_grew_is_told(before: int | None, now: int | None, told: str) -> None:
    """An unknown count says nothing."""
    assert kills_since(before, now) == told


@pytest.mark.parametrize(
    ("code", "kills", "told"),
    [
        (3, (0, 0), "it had no memory left (code 3)"),
        (-9, (0, 1), "it was killed (SIGKILL), and the system has killed processes for lack of memory meanwhile"),
        (137, (4, 4), "somebody killed it (SIGKILL); the system has killed no process for lack of memory"),
        (-9, (None, 1), "it was killed (SIGKILL), as the system does if the machine has no memory left"),
        (-11, (0, 0), "it was ended by SIGSEGV"),
        (143, (0, 0), "it was ended by SIGTERM"),
        (1, (0, 0), "it ended with code 1"),
    ],
)
def test_the_end_of_java_is_that_of_its_exit_code(code: int, kills: tuple[int | None, int], told: str) -> None:
    """A kill by somebody is told apart from one by the system, if the system counts its own."""
    assert end_by_code(code, *kills) == told
