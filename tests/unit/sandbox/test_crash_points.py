"""Each failpoint of an update has a moment that a test can name."""

from __future__ import annotations

from collections import Counter

from framework.foundation.failpoints import FAILPOINTS
from framework.sandbox.crash_points import MOMENTS, OF_OTHER_COMMANDS, moment_of, moments_text


def test_each_failpoint_is_of_one_moment_or_of_other_commands() -> None:
    """A new failpoint needs a moment, or a reason why no update of a sandbox passes it."""
    named = Counter(failpoint for moment in MOMENTS.values() for failpoint in moment.failpoints)

    assert Counter(FAILPOINTS) == named + Counter(OF_OTHER_COMMANDS)


def test_the_text_has_one_line_for_each_moment() -> None:
    """The error of an unknown name lists what a test may write, and what is written then."""
    lines = moments_text().splitlines()

    assert [line.split()[0] for line in lines] == list(MOMENTS)
    assert (
        "  after-deletes             the deletes of a batch of AUTO CDC are recorded, the target is as before" in lines
    )


def test_a_failpoint_is_shown_in_the_words_of_a_test() -> None:
    """Failpoints of other commands have no moment."""
    assert (moment_of("cdc.after_merge"), moment_of("prune.after_mark")) == ("after-table-commit", None)
