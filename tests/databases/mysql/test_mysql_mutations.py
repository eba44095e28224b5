"""The mistakes that make a copy of MySQL or MariaDB wrong without an error, and the test that finds each.

Each mutation breaks a rule of the design, and the test named with it must fail. Without the mutation, each passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from framework.foundation.errors import SourceError
from framework.sources.databases.mysql.history import LogHistory
from framework.sources.databases.mysql.log import changes, transactions
from framework.sources.databases.mysql.log.binlog_connection import EventStream
from framework.sources.databases.mysql.log.changes import RowImages, TableChanges
from framework.sources.databases.mysql.log.compressed import payload_events
from framework.sources.databases.mysql.log.events import Event
from framework.sources.databases.mysql.log.row_decoder import RowDecoder
from framework.sources.databases.mysql.log.transactions import Step, TransactionReader
from tests.databases.mysql import test_mysql_binlog_transactions as of_log
from tests.databases.mysql import test_mysql_log_faults as of_faults
from tests.databases.mysql import test_mysql_xa as of_xa
from tests.support.mysql_programs import MARIADB, MYSQL
from tests.support.mysql_servers import MysqlServer, new_database
from tests.unit.sources import test_mysql_log_places as of_places

Mutate = Callable[[pytest.MonkeyPatch], None]


class Place(NamedTuple):
    """What a test needs: its server, how to start another one, and an empty folder."""

    server: MysqlServer
    own_server: Callable[..., MysqlServer]
    folder: Any


def _world(test: Callable[[of_log.World], None]) -> Callable[[Place], None]:
    def run(place: Place) -> None:
        with new_database(place.server) as uri:
            world = of_log.World(place.server, uri.rpartition("/")[2])
            try:
                test(world)
            finally:
                world.reading.close()

    return run


def _bank(test: Callable[[of_xa.Bank], None]) -> Callable[[Place], None]:
    def run(place: Place) -> None:
        with new_database(place.server) as uri:
            bank = of_xa.Bank(place.server, uri.rpartition("/")[2], place.folder)
            try:
                test(bank)
            finally:
                bank.log.close()

    return run


def _alone(test: Callable[[], None]) -> Callable[[Place], None]:
    return lambda _: test()


def trust_the_offsets_of_headers(patch: pytest.MonkeyPatch) -> None:
    """An offset is taken from the 32 bits of a header."""

    def mutated(self: EventStream, size: int, low: int) -> int:
        self.offset = low
        return low - size

    patch.setattr(EventStream, "_advance", mutated)


def count_before_the_checksum(patch: pytest.MonkeyPatch) -> None:
    """The commit in a compressed transaction counts at once."""

    def mutated(event: Event) -> Iterator[bytes]:
        *rest, last = payload_events(Event(event.kind, 0, 0, 0, event.data, rest=_without_fault(event)))
        yield from (*rest, last)

    patch.setattr(transactions, "payload_events", mutated)


def _without_fault(event: Event) -> Iterator[bytes]:
    try:
        yield from event.rest
    except SourceError:
        return


def keep_the_old_key(patch: pytest.MonkeyPatch) -> None:
    """An update that changes the key is an update of the new key alone."""

    def mutated(self: TableChanges, decoder: RowDecoder, data: bytes, at: int) -> int:
        size = decoder.bitmap_size
        while at < len(data):
            at = decoder.keys[data[at : at + size]](data, at + size)[1]
            end = decoder.keys[data[at : at + size]](data, at + size)[1]
            at = self._rows(decoder, data[:end], at, self._first + 1)
        return at

    patch.setattr(TableChanges, "_updates", mutated)


def pass_over_statements(patch: pytest.MonkeyPatch) -> None:
    """A statement in the log without rows is left out."""
    patch.setattr(TransactionReader, "_is_of_copied", lambda *_: False)


def take_partial_images(patch: pytest.MonkeyPatch) -> None:
    """An image that lacks columns is read as if the others were NULL, or left out."""
    read_images = changes.read_images

    def mutated(*arguments: Any, **named: Any) -> RowImages:
        found = read_images(*arguments, **named)
        return RowImages(len(arguments[0])) if found.problem else found

    patch.setattr(changes, "read_images", mutated)


def pass_over_unknown_events(patch: pytest.MonkeyPatch) -> None:
    """The events of a compressed transaction are left out, except for its commit."""

    def mutated(event: Event) -> Iterator[bytes]:
        *_, last = payload_events(event)
        yield last

    patch.setattr(transactions, "payload_events", mutated)


def trust_any_successor(patch: pytest.MonkeyPatch) -> None:
    """Another server goes on wherever it would, whatever its tables had before."""
    patch.setattr(LogHistory, "_unless_unread", lambda *_: None)


def forget_what_was_prepared(patch: pytest.MonkeyPatch) -> None:
    """The commit of a transaction that was prepared before the start is left out."""

    def mutated(self: TransactionReader, xid: str, event: Event) -> Iterator[Step]:
        place = self.prepared.pop(xid, None)
        if place is not None:
            yield from self._read_prepared(self._reopen(place), event)

    patch.setattr(TransactionReader, "_commit_prepared", mutated)


def trust_the_name_of_a_file(patch: pytest.MonkeyPatch) -> None:
    """A log that has the file is taken for the one that was read."""
    patch.setattr(LogHistory, "_replaced", lambda *_: None)


def pass_over_truncates(patch: pytest.MonkeyPatch) -> None:
    """The rows of a truncated table stay."""
    patch.setattr(TableChanges, "truncate", lambda _: None)


class Mutation(NamedTuple):
    """A rule of the design, what breaks it, and the test that finds it."""

    rule: str
    mutate: Mutate
    catch: Callable[[Place], None]
    server: str = MARIADB


MUTATIONS = (
    Mutation(
        "places are counted from the sizes of events, since headers have 32 bits",
        trust_the_offsets_of_headers,
        _alone(of_places.test_a_reading_goes_on_from_each_place_of_a_large_file),
    ),
    Mutation(
        "a transaction counts when its checksum was read",
        count_before_the_checksum,
        _alone(of_places.test_a_compressed_transaction_counts_when_its_checksum_was_read),
    ),
    Mutation(
        "a key update is a delete and an insert",
        keep_the_old_key,
        _world(of_log.test_an_update_of_the_key_is_a_delete_and_an_insert),
    ),
    Mutation(
        "a statement without rows is unreadable, never a warning",
        pass_over_statements,
        _world(of_log.test_dml_in_statement_format_is_unreadable),
    ),
    Mutation(
        "images have all columns, or are unreadable",
        take_partial_images,
        _world(of_log.test_images_without_all_columns_are_unreadable),
    ),
    Mutation(
        "no event that may have rows is passed over",
        pass_over_unknown_events,
        lambda place: of_log.test_compressed_transactions_are_read(place.server),
        MYSQL,
    ),
    Mutation(
        "a transaction that is prepared at the start is read at its commit",
        forget_what_was_prepared,
        _bank(of_xa.test_a_transaction_that_is_prepared_while_the_log_begins_is_read_when_it_is_committed),
    ),
    Mutation(
        "another log in a file of the same name is a gap",
        trust_the_name_of_a_file,
        lambda place: of_faults.test_a_log_that_was_reset_is_a_gap(place.own_server, place.folder, MARIADB),
    ),
    Mutation(
        "a successor with transactions that were not read is a gap",
        trust_any_successor,
        lambda place: of_faults.test_a_successor_with_unread_transactions_is_a_gap_of_their_tables(
            place.own_server, place.folder, MARIADB
        ),
    ),
    Mutation("TRUNCATE is an operation", pass_over_truncates, _world(of_log.test_a_truncate_is_an_operation)),
)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=[each.mutate.__name__ for each in MUTATIONS])
def test_a_mutation_fails_its_test(
    shared_server: Callable[[str], MysqlServer],
    own_server: Callable[..., MysqlServer],
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
    mutation: Mutation,
) -> None:
    """With the mutation, the test fails: rows differ, or what it expects to be refused is not."""
    place = Place(shared_server(mutation.server), own_server, tmp_path)
    mutation.mutate(monkeypatch)
    with pytest.raises((AssertionError, ValueError, SourceError, pytest.fail.Exception)):
        mutation.catch(place)
