"""Episodes of trouble: each is told once when it begins and once when it is over, however often it is seen."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from framework.foundation.clock import timestamp_text

_IDS = uuid.UUID("b3f0c7de-3b52-5c1e-8d59-2f3a9a1f8c11")
_MOST_KEPT = 100


class AlertKind(StrEnum):
    """What a channel may be told of."""

    FAILED = "failed"
    """The last update has failed or is lost, and no further attempt is planned."""
    BEHIND = "behind"
    """The oldest unread row of a flow of the running update is too old."""
    LOSING_DATA = "losing_data"
    """A source may soon delete what a flow has not read."""
    QUARANTINED = "quarantined"
    """The last run of a flow has set rows aside."""
    SCHEDULE_MISSED = "schedule_missed"
    """No server ran at a time of a schedule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Something that is wrong now.

    Args:
        kind: its kind.
        subject: the flow or the schedule that it is about; empty for the pipeline itself. Kind and subject name it.
        text: what is wrong, as sentences.
        way: the first way out; empty if there is none.
    """

    kind: AlertKind
    subject: str = ""
    text: str
    way: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """A trouble over time; `recovered_at` is None while it lasts."""

    trouble: Trouble
    since: str
    recovered_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message about an episode.

    Args:
        id: the same for each delivery of the message, so that a receiver can leave out a repeated one.
        has_recovered: whether the episode is over.
    """

    id: str
    pipeline: str
    trouble: Trouble
    since: str
    at: str
    has_recovered: bool = False

    @property
    def title(self) -> str:
        """One line."""
        about = f" ({self.trouble.subject})" if self.trouble.subject else ""
        state = "recovered" if self.has_recovered else self.trouble.kind.value.replace("_", " ")
        what = f": {self.trouble.kind.value.replace('_', ' ')}" if self.has_recovered else ""
        return f"{self.pipeline}: {state}{what}{about}"

    @property
    def text(self) -> str:
        """The whole message as lines."""
        if self.has_recovered:
            return f"{self.title}\nIt lasted from {self.since} to {self.at}."
        return "\n".join(filter(None, (self.title, self.trouble.text, self.trouble.way)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Episodes:
    """The open episodes of one pipeline, and the last ones that are over, oldest first."""

    open: tuple[Episode, ...] = ()
    over: tuple[Episode, ...] = ()

    def seen(
        self,
        pipeline: str,
        troubles: Sequence[Trouble],
        now: datetime,
        is_unknown: Callable[[Trouble], bool] = lambda _: False,
    ) -> tuple[Episodes, tuple[Message, ...]]:
        """Return the episodes after a look, and what is to be told.

        Args:
            pipeline: the pipeline's name, for the messages.
            troubles: what is wrong now.
            now: the present time.
            is_unknown: whether nothing is known about a trouble now: its episode goes on.
        """
        at = timestamp_text(now)
        found: Mapping[tuple[AlertKind, str], Trouble] = {(each.kind, each.subject): each for each in troubles}
        known = {(each.trouble.kind, each.trouble.subject) for each in self.open}
        begun = [Episode(trouble=each, since=at) for key, each in found.items() if key not in known]
        ended = [
            replace(each, recovered_at=at)
            for each in self.open
            if (each.trouble.kind, each.trouble.subject) not in found and not is_unknown(each.trouble)
        ]
        lasting = [each for each in self.open if all(each.trouble is not over.trouble for over in ended)]
        messages = [_message(pipeline, each, at) for each in (*ended, *begun)]
        episodes = Episodes(open=(*lasting, *begun), over=(*self.over, *ended)[-_MOST_KEPT:])
        return episodes, tuple(messages)


def _message(pipeline: str, episode: Episode, at: str) -> Message:
    trouble, is_over = episode.trouble, episode.recovered_at is not None
    key = f"{pipeline} {trouble.kind} {trouble.subject} {episode.since} {is_over}"
    return Message(
        id=str(uuid.uuid5(_IDS, key)), pipeline=pipeline, trouble=trouble, since=episode.since, at=at,
        has_recovered=is_over,
    )  # fmt: skip
