"""The alerts of one pipeline, stored beside its updates: open episodes, and messages that are not sent yet.

Both are one file, which is replaced at once. A crash before that changes nothing: the next look sees the same trouble.
A crash after it leaves messages that the next server sends. A message is sent again if the process dies between its
sending and the record of it; both have the same id.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from framework.foundation.clock import Clock, timestamp_text
from framework.foundation.errors import SluiceError
from framework.foundation.files.storage_port import Storage
from framework.foundation.files.stored_format import StoredFormat
from framework.operations.alerting.alert_file import AlertSettings
from framework.operations.alerting.episodes import AlertKind, Episode, Episodes, Message, Trouble
from framework.operations.alerting.sending import Resolve, send

_FORMAT = StoredFormat(1)
_FOLDER = "alerts"
_LONGEST = timedelta(hours=24)
"""A message that could not be sent for so long is given up."""
_FIRST_DELAY_SECONDS, _LONGEST_DELAY_SECONDS = 30.0, 1_800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A message that is to be sent on a channel, not before a moment."""

    channel: str
    message: Message
    tries: int = 0
    not_before: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    episodes: Episodes = field(default_factory=Episodes)
    outbox: tuple[Outgoing, ...] = ()


class AlertDesk:
    """Keeps the alerts of one pipeline; its methods may be called from several threads of one process.

    Args:
        storage: the pipeline's storage.
        pipeline: the pipeline's name; several pipelines may share a storage.
        clock: the present time.
    """

    def __init__(self, storage: Storage, pipeline: str, clock: Clock) -> None:
        self._storage = storage
        self._pipeline = pipeline
        self._clock = clock
        self._lock = threading.Lock()
        digest = hashlib.sha256(pipeline.encode()).hexdigest()[:16]  # a name may have any characters
        self._path = storage.path(_FOLDER, f"{digest}.json")
        self.faults: Mapping[str, SluiceError] = {}
        """Why the last message of a channel could not be sent, by its name."""

    def look(
        self,
        settings: AlertSettings,
        troubles: Sequence[Trouble],
        is_unknown: Callable[[Trouble], bool] = lambda _: False,
    ) -> tuple[Message, ...]:
        """Record what is wrong now, and return the new messages, which `deliver` sends.

        Args:
            settings: the channels.
            troubles: what is wrong.
            is_unknown: whether nothing is known about a trouble now, so that its episode goes on.

        Raises:
            OperationError: STORED_FORMAT_UNKNOWN, STORED_FILE_DAMAGED, STORAGE_NOT_WRITABLE.
        """
        with self._lock:
            before, now = self._read(), self._clock.now()
            episodes, messages = before.episodes.seen(self._pipeline, troubles, now, is_unknown)
            if episodes == before.episodes:
                return ()
            new = [
                Outgoing(channel=channel.name, message=message, not_before=timestamp_text(now))
                for message in messages
                for channel in settings.channels
                if message.trouble.kind in channel.kinds
            ]
            self._write(replace(before, episodes=episodes, outbox=(*before.outbox, *new)))
            return messages

    def deliver(self, settings: AlertSettings, resolve: Resolve) -> None:
        """Send the messages that are due; one that can't be sent is tried again later, for a day.

        Args:
            settings: the channels; messages of a channel that is gone are dropped.
            resolve: replaces references to secrets.

        Raises:
            OperationError: STORED_FORMAT_UNKNOWN, STORED_FILE_DAMAGED, STORAGE_NOT_WRITABLE.
        """
        channels = {each.name: each for each in settings.channels}
        for outgoing in self.due:
            channel = channels.get(outgoing.channel)
            error: SluiceError | None = None
            if channel is not None:
                try:
                    send(channel, outgoing.message, resolve)
                except SluiceError as found:
                    error = found
            with self._lock:
                self._done(outgoing, error)

    @property
    def due(self) -> tuple[Outgoing, ...]:
        """The messages that may be sent now.

        Raises:
            OperationError: STORED_FORMAT_UNKNOWN, STORED_FILE_DAMAGED.
        """
        with self._lock:
            now = timestamp_text(self._clock.now())
            return tuple(each for each in self._read().outbox if each.not_before <= now)

    @property
    def episodes(self) -> Episodes:
        """The open episodes, and the last ones that are over.

        Raises:
            OperationError: STORED_FORMAT_UNKNOWN, STORED_FILE_DAMAGED.
        """
        with self._lock:
            return self._read().episodes

    def _done(self, outgoing: Outgoing, error: SluiceError | None) -> None:
        """Remove a message that was sent, or put off one that was not."""
        state, now = self._read(), self._clock.now()
        rest = tuple(each for each in state.outbox if each != outgoing)
        faults = {name: each for name, each in self.faults.items() if name != outgoing.channel}
        if error is not None:
            faults[outgoing.channel] = error
            if now - datetime.fromisoformat(outgoing.message.at) < _LONGEST:
                delay = min(_FIRST_DELAY_SECONDS * 2.0 ** min(outgoing.tries, 20), _LONGEST_DELAY_SECONDS)
                later = timestamp_text(now + timedelta(seconds=delay))
                rest = (*rest, replace(outgoing, tries=outgoing.tries + 1, not_before=later))
        self.faults = faults
        self._write(replace(state, outbox=rest))

    def _read(self) -> _State:
        """Return the stored state: another server may have written it before this one took over."""
        return _FORMAT.read(self._storage, self._path, _state_of) or _State()

    def _write(self, state: _State) -> None:
        content = {
            "open": [asdict(each) for each in state.episodes.open],
            "over": [asdict(each) for each in state.episodes.over],
            "outbox": [asdict(each) for each in state.outbox],
        }
        self._storage.write_text(self._path, _FORMAT.text(content))


def _state_of(content: Mapping[str, Any]) -> _State:
    opened, over = (tuple(map(_episode, content[name])) for name in ("open", "over"))
    outbox = tuple(
        Outgoing(**{**each, "message": Message(**{**each["message"], "trouble": _trouble(each["message"]["trouble"])})})
        for each in content["outbox"]
    )
    return _State(episodes=Episodes(open=opened, over=over), outbox=outbox)


def _episode(value: Mapping[str, Any]) -> Episode:
    return Episode(**{**value, "trouble": _trouble(value["trouble"])})


def _trouble(value: Mapping[str, Any]) -> Trouble:
    return Trouble(**{**value, "kind": AlertKind(value["kind"])})
