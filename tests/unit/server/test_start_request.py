"""A request becomes the command line of an engine; each value is one argument."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from framework.run.update.control.identity import UpdateIdentity
from framework.server.engines.capacity import memory, most_engines
from framework.server.engines.start_request import StartRequest, engine_command
from tests.support.served_pipelines import served

ID = "10000000-0000-4000-8000-000000000000"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, []),
        (
            {"refresh_selection": ["a", "--help"], "full_refresh_selection": ["b"]},
            ["--refresh=a", "--refresh=--help", "--full-refresh=b"],
        ),
        ({"full_refresh": True, "development": False}, ["--full-refresh-all"]),
        (
            {
                "reset_checkpoint_selection": ["f", "g"],
                "sluice": {"starts": {"f": ["startingVersion=3"], "g": "earliest"}},
            },
            ["--reset-checkpoint=f", "--from=startingVersion=3", "--reset-checkpoint=g", "--from=earliest"],
        ),
        (
            {"full_refresh_selection": ["b"], "sluice": {"keep_history": True, "history_keys": ["k"]}},
            ["--full-refresh=b", "--keep-history", "--history-keys=k"],
        ),
        (
            {"parameters": {"day": "2026-01-01 --x"}, "sluice": {"continuous": True}},
            ["--continuous", "--param=day=2026-01-01 --x"],
        ),
    ],
)
def test_a_request_is_the_command_that_a_user_would_type(
    tmp_path: Path, body: dict[str, Any], expected: list[str]
) -> None:
    """With the ids by which the update is found again."""
    entry = served(tmp_path)
    request = StartRequest(body=body)
    request.check()
    identity = UpdateIdentity.of(update_id=ID, cause="API_CALL")
    words = engine_command(entry, request, identity)[3:]
    ids = [f"--update-id={ID}", f"--request-id={ID}", "--attempt=1", "--cause=API_CALL"]
    assert ["run", f"--spec={entry.spec_file}", *ids, *expected] == list(words)


def test_validation_is_no_run(tmp_path: Path) -> None:
    """It takes no lock and writes no events."""
    entry = served(tmp_path)
    request = StartRequest(body={"validate_only": True, "parameters": {"day": "1"}})
    words = engine_command(entry, request, UpdateIdentity.of(update_id=ID))[3:]
    assert ["validate", f"--spec={entry.spec_file}", "--param=day=1"] == list(words)


def test_the_engines_that_run_at_the_same_time_fit_into_the_memory() -> None:
    """Three gigabytes each, beside four for the rest; at least one."""
    sizes = [2, 4, 7, 10, 24, 64]
    assert [1, 1, 1, 2, 6, 20] == [most_engines(each * 1024**3) for each in sizes]
    assert memory().total_bytes > 0
