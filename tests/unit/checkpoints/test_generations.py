"""Generations are created, promoted, rolled back and abandoned; none is lost."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from framework.checkpoints.generations import Generation, GenerationState, GenerationStore, folder_name
from framework.checkpoints.manifest import BY_LOSS, BY_REFRESH, BY_REWIND
from framework.checkpoints.rebuilds import Rebuild, RebuildStore, last_number
from framework.checkpoints.roll_back import last_kept
from framework.foundation.errors import InternalError, OperationError, UserError
from framework.foundation.files.storage import LocalStorage
from framework.foundation.names import QualifiedName
from framework.run.update.checkpoint_actions import reset_checkpoint, roll_back_checkpoint
from framework.testing.manual_clock import ManualClock

ORDERS = QualifiedName.parse("orders", catalog="main", schema="sales")
LOAD = QualifiedName.parse("load", catalog="main", schema="sales")
KEPT, CURRENT, BUILDING = GenerationState.KEPT, GenerationState.CURRENT, GenerationState.BUILDING

ABANDON = """
import sys
from framework.checkpoints.generations import GenerationStore
from framework.foundation.names import QualifiedName
from framework.engine.files.storage import open_storage

names = [QualifiedName.parse(text, catalog="main", schema="sales") for text in ("orders", "load")]
GenerationStore(open_storage(sys.argv[1])).abandon(*names, 1)
"""


@pytest.fixture
def storage(tmp_path: pathlib.Path) -> LocalStorage:
    """A storage that does not exist yet."""
    return LocalStorage(str(tmp_path / "storage"))


@pytest.fixture
def store(storage: LocalStorage) -> GenerationStore:
    """A store whose clock is fixed at the start of 2026."""
    return GenerationStore(storage, ManualClock())


def states(store: GenerationStore) -> list[tuple[int, GenerationState]]:
    """Number and state of each generation of the one flow."""
    return [(each.number, each.state) for each in store.read(ORDERS, LOAD)]


def test_a_flow_that_never_ran_has_no_generation(store: GenerationStore, storage: LocalStorage) -> None:
    """A flow has no generation before its first run, and a read creates nothing."""
    assert (store.read(ORDERS, LOAD), store.latest_number(ORDERS, LOAD), store.list_all()) == ((), 0, ())
    assert not storage.exists(storage.root)


def test_a_generation_tells_why_when_and_from_where_it_began(store: GenerationStore) -> None:
    """Another store reads back every given field."""
    store.begin(ORDERS, LOAD, reason="first run", start='{"startingVersion": 3}', fingerprint="abc")
    assert store.read(ORDERS, LOAD) == (
        Generation(
            number=1,
            begun_at="2026-01-01T00:00:00.000Z",
            reason="first run",
            start='{"startingVersion": 3}',
            state=CURRENT,
            completed=False,
            fingerprint="abc",
            current_since="2026-01-01T00:00:00.000Z",
        ),
    )


def test_a_reset_begins_anew_and_keeps_the_old(store: GenerationStore) -> None:
    """The second generation is current from its beginning, the first is kept."""
    store.begin(ORDERS, LOAD, reason="first run")
    store.begin(ORDERS, LOAD, reason="reset")
    assert states(store) == [(1, KEPT), (2, CURRENT)]


def test_a_rebuild_stands_beside_the_current_one_until_it_is_promoted(store: GenerationStore) -> None:
    """A staged generation is used only after its promotion, which may be repeated."""
    store.begin(ORDERS, LOAD, reason="first run")
    store.begin(ORDERS, LOAD, reason="full refresh", staged=True)
    before = states(store)
    store.promote(ORDERS, LOAD, 2)
    store.promote(ORDERS, LOAD, 2)
    assert [before, states(store)] == [[(1, CURRENT), (2, BUILDING)], [(1, KEPT), (2, CURRENT)]]


def test_a_reset_leaves_an_unfinished_rebuild_alone(store: GenerationStore) -> None:
    """Beginning a current generation while another builds keeps both apart."""
    store.begin(ORDERS, LOAD, reason="first run")
    store.begin(ORDERS, LOAD, reason="full refresh", staged=True)
    store.begin(ORDERS, LOAD, reason="reset")
    assert states(store) == [(1, KEPT), (2, BUILDING), (3, CURRENT)]


def test_a_second_rebuild_replaces_the_first_and_its_checkpoint(store: GenerationStore, storage: LocalStorage) -> None:
    """The first rebuild's folder is deleted; its number is not reused."""
    store.begin(ORDERS, LOAD, reason="full refresh", staged=True)
    storage.write_text(f"{store.path(ORDERS, LOAD, 1)}/offsets/0", "v1")
    store.begin(ORDERS, LOAD, reason="full refresh", staged=True)
    assert states(store) == [(2, BUILDING)]
    assert not storage.exists(store.path(ORDERS, LOAD, 1))


def test_an_abandoned_rebuild_takes_its_checkpoint_along(store: GenerationStore, storage: LocalStorage) -> None:
    """Abandoning deletes the folder, may be repeated, and never frees the number."""
    store.begin(ORDERS, LOAD, reason="full refresh", staged=True)
    storage.write_text(f"{store.path(ORDERS, LOAD, 1)}/offsets/0", "v1")
    store.abandon(ORDERS, LOAD, 1)
    store.abandon(ORDERS, LOAD, 1)
    assert not storage.exists(store.path(ORDERS, LOAD, 1))
    assert store.begin(ORDERS, LOAD, reason="first run").number == 2


def test_a_roll_back_makes_a_kept_generation_current_again(store: GenerationStore) -> None:
    """The previous generation is current again with its marks; the replaced one is kept."""
    store.begin(ORDERS, LOAD, reason="first run")
    store.complete(ORDERS, LOAD, 1)
    store.begin(ORDERS, LOAD, reason="reset")
    store.restore(ORDERS, LOAD, 1)
    assert states(store) == [(1, CURRENT), (2, KEPT)]
    assert [each.completed for each in store.read(ORDERS, LOAD)] == [True, False]


def test_a_completed_mark_stays_with_its_generation(store: GenerationStore) -> None:
    """Completing marks one generation, and a promotion keeps its mark."""
    store.begin(ORDERS, LOAD, reason="first run")
    store.begin(ORDERS, LOAD, reason="full refresh", staged=True)
    store.complete(ORDERS, LOAD, 2)
    store.complete(ORDERS, LOAD, 2)
    store.promote(ORDERS, LOAD, 2)
    assert [(each.number, each.completed) for each in store.read(ORDERS, LOAD)] == [(1, False), (2, True)]


def test_the_start_of_a_stream_changes_its_id_alone(store: GenerationStore) -> None:
    """A later stream of the same generation replaces it, as after a checkpoint without batches was deleted."""
    store.begin(ORDERS, LOAD, reason="first run")
    store.started(ORDERS, LOAD, 1, "one")
    store.complete(ORDERS, LOAD, 1)
    store.started(ORDERS, LOAD, 1, "two")
    assert [(each.query, each.completed) for each in store.read(ORDERS, LOAD)] == [("two", True)]


def test_a_rebuild_may_share_one_number_over_all_flows(store: GenerationStore) -> None:
    """A number above all used ones is accepted; a used one is rejected."""
    store.begin(ORDERS, LOAD, reason="full refresh", staged=True, number=7)
    assert store.latest_number(ORDERS, LOAD) == 7
    with pytest.raises(InternalError) as caught:
        store.begin(ORDERS, LOAD, reason="again", number=7)
    assert (caught.value.condition, caught.value.fields["number"]) == ("GENERATION_MISUSED", 7)


@pytest.mark.parametrize("action", ["promote", "restore", "complete"])
def test_what_does_not_exist_can_not_be_changed(store: GenerationStore, action: str) -> None:
    """A change of a generation that does not exist is a bug of Sluice, and writes nothing."""
    with pytest.raises(InternalError, match="GENERATION_MISUSED"):
        getattr(store, action)(ORDERS, LOAD, 4)
    assert store.list_all() == ()


def test_only_what_builds_is_promoted_or_abandoned(store: GenerationStore) -> None:
    """A kept generation is not promoted, the current one is not abandoned."""
    store.begin(ORDERS, LOAD, reason="first run")
    store.begin(ORDERS, LOAD, reason="reset")
    with pytest.raises(InternalError, match="its state is kept"):
        store.promote(ORDERS, LOAD, 1)
    with pytest.raises(InternalError, match="its state is current"):
        store.abandon(ORDERS, LOAD, 2)
    assert states(store) == [(1, KEPT), (2, CURRENT)]


def test_without_its_manifest_a_flow_does_not_begin_in_an_old_checkpoint(
    store: GenerationStore, storage: LocalStorage
) -> None:
    """Folders that no manifest names still count: the next number is above theirs."""
    storage.write_text(f"{store.path(ORDERS, LOAD, 5)}/offsets/0", "v1")
    assert store.begin(ORDERS, LOAD, reason="first run").number == 6


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1, "generations": [{}]}'])
def test_a_damaged_manifest_is_named(store: GenerationStore, storage: LocalStorage, text: str) -> None:
    """A manifest that can't be understood ends in an error with its path, not in a new beginning."""
    path = f"checkpoints/{folder_name(ORDERS)}/{folder_name(LOAD)}/manifest.json"
    storage.write_text(path, text)
    for action in (store.list_all, lambda: store.begin(ORDERS, LOAD, reason="first run")):
        with pytest.raises(OperationError) as caught:
            action()
        assert caught.value.condition == "CHECKPOINT_MANIFEST_DAMAGED"
        assert str(caught.value.fields["path"]).endswith("main.sales.load/manifest.json")


def test_all_flows_are_listed_by_name(store: GenerationStore) -> None:
    """The list has every flow that ever ran, sorted, with names that are not valid folder names."""
    odd = QualifiedName(catalog="main", schema="a.b", table="größe: 50%")
    for dataset, flow in ((odd, odd), (ORDERS, LOAD), (ORDERS, ORDERS)):
        store.begin(dataset, flow, reason="first run")
    assert [(each.dataset, each.flow) for each in store.list_all()] == [(odd, odd), (ORDERS, LOAD), (ORDERS, ORDERS)]


def test_other_names_have_other_folders() -> None:
    """Names that print alike or differ in odd characters only don't share a folder."""
    names = [
        QualifiedName(catalog="a", schema="b.c", table="d"),
        QualifiedName(catalog="a", schema="b", table="c.d"),
        QualifiedName(catalog="a", schema="b", table="c~2ed"),
        QualifiedName(catalog="a", schema="b", table="x" * 300),
        QualifiedName(catalog="a", schema="b", table="x" * 301),
    ]
    folders = [folder_name(name) for name in names]
    assert len(set(folders)) == len(names)
    assert max(len(folder) for folder in folders) < 255


def test_killed_while_abandoning_it_never_uses_the_number_again(store: GenerationStore, storage: LocalStorage) -> None:
    """After `kill -9` between manifest and folder, the rebuild is gone and its folder is unused."""
    store.begin(ORDERS, LOAD, reason="full refresh", staged=True)
    storage.write_text(f"{store.path(ORDERS, LOAD, 1)}/offsets/0", "v1")
    environment = {**os.environ, "SLUICE_FAILPOINT": "generations.before_delete"}
    done = subprocess.run([sys.executable, "-c", ABANDON, storage.root], env=environment, check=False)
    assert (done.returncode, states(store)) == (-9, [])
    assert store.begin(ORDERS, LOAD, reason="full refresh", staged=True).number == 2


def test_a_retired_flow_begins_anew_and_can_not_be_rolled_back(store: GenerationStore, storage: LocalStorage) -> None:
    """Its rows have left the table: continuing a generation that wrote them would lose them."""
    store.begin(ORDERS, LOAD, reason="first run")
    store.retire(ORDERS, LOAD, BY_REFRESH)
    store.retire(ORDERS, LOAD, BY_REFRESH)
    assert (states(store), store.current(ORDERS, LOAD)) == ([(1, KEPT)], None)
    assert [manifest.flow for manifest in store.list_of(ORDERS)] == [LOAD]
    assert last_kept(store.manifest(ORDERS, LOAD), appends=False) is None
    with pytest.raises(UserError, match="GENERATION_NOT_KEPT"):
        roll_back_checkpoint(storage, "p", "load", 1)
    assert store.begin(ORDERS, LOAD, reason="declared again").number == 2
    store.begin(ORDERS, LOAD, reason="reset")
    assert roll_back_checkpoint(storage, "p", "load")[1].number == 2


def test_a_deleted_table_ends_what_wrote_to_it_and_not_what_is_published_in_its_place(store: GenerationStore) -> None:
    """A generation of the refresh that is published next goes on, whether it is building or current already."""
    store.begin(ORDERS, LOAD, reason="first run")
    store.begin(ORDERS, LOAD, reason="full refresh", staged=True, fingerprint="refresh 1")
    store.retire_lost(ORDERS, besides="refresh 1")
    found = [(each.number, each.state, each.undone_by) for each in store.read(ORDERS, LOAD)]
    assert found == [(1, KEPT, BY_LOSS), (2, GenerationState.BUILDING, "")]
    store.promote(ORDERS, LOAD, 2)
    store.retire_lost(ORDERS, besides="refresh 1")
    assert store.current(ORDERS, LOAD) == store.read(ORDERS, LOAD)[1]
    store.retire_lost(ORDERS)
    assert store.current(ORDERS, LOAD) is None


def test_a_generation_from_before_a_rewind_is_ahead_of_the_table(store: GenerationStore) -> None:
    """A roll-back to it would skip the rows that the rewind has undone."""
    store.begin(ORDERS, LOAD, reason="first run")
    store.adopt(ORDERS, LOAD, 2, reason="rewound", start=None, after_batch=4)
    store.adopt(ORDERS, LOAD, 2, reason="rewound", start=None, after_batch=4)
    found = [(each.number, each.state, each.undone_by) for each in store.read(ORDERS, LOAD)]
    assert found == [(1, KEPT, BY_REWIND), (2, CURRENT, "")]
    assert last_kept(store.manifest(ORDERS, LOAD), appends=False) is None


def test_checkpoints_are_not_changed_in_the_middle_of_a_full_refresh(
    store: GenerationStore, storage: LocalStorage
) -> None:
    """The end of the refresh would undo a reset or a roll-back, so both are refused until it is finished."""
    store.begin(ORDERS, LOAD, reason="first run")
    store.begin(ORDERS, LOAD, reason="reset")
    rebuilds = RebuildStore(storage)
    for mark in (Rebuild(number=1), Rebuild(number=1, frozen=True), Rebuild(number=1, frozen=True, published=True)):
        rebuilds.write(ORDERS, mark)
        for change in (reset_checkpoint, roll_back_checkpoint):
            with pytest.raises(UserError, match="FULL_REFRESH_UNFINISHED"):
                change(storage, "p", "load")
    rebuilds.write(ORDERS, Rebuild(number=1, frozen=True, published=True, finished=True))
    assert roll_back_checkpoint(storage, "p", "load")[1].number == 1


def test_an_older_copy_of_the_state_of_a_full_refresh_is_not_continued(
    store: GenerationStore, storage: LocalStorage
) -> None:
    """Its copy of the table has rows of checkpoints that are not continued; no later refresh gets its number."""
    rebuilds, mark = RebuildStore(storage), Rebuild(number=3)
    rebuilds.write(ORDERS, mark)
    store.begin(ORDERS, LOAD, reason="full refresh", staged=True, fingerprint=mark.generation_mark)
    assert (rebuilds.read(ORDERS), last_number(rebuilds.read(ORDERS), store.list_of(ORDERS))) == (mark, 3)
    store.promote(ORDERS, LOAD, 1)
    assert rebuilds.read(ORDERS) == Rebuild(number=3, finished=True)
    rebuilds.write(ORDERS, Rebuild(number=2))
    assert rebuilds.read(ORDERS) == Rebuild(number=2, finished=True)
    assert last_number(rebuilds.read(ORDERS), store.list_of(ORDERS)) == 3


def test_an_append_is_not_rolled_back_past_a_full_refresh(store: GenerationStore) -> None:
    """The refresh has read what comes after an earlier generation; later generations, and AUTO CDC, are free."""
    store.begin(ORDERS, LOAD, reason="first run")
    store.begin(ORDERS, LOAD, reason="full refresh", staged=True, fingerprint=Rebuild(number=1).generation_mark)
    found = [last_kept(store.manifest(ORDERS, LOAD), appends=appends) for appends in (True, False)]
    assert found == [None, None]
    store.promote(ORDERS, LOAD, 2)
    first, none = (last_kept(store.manifest(ORDERS, LOAD), appends=appends) for appends in (False, True))
    assert (first and first.number, none) == (1, None)
    store.begin(ORDERS, LOAD, reason="reset")
    kept = last_kept(store.manifest(ORDERS, LOAD), appends=True)
    assert kept is not None
    assert kept.number == 2
    assert last_kept(store.manifest(ORDERS, LOAD), appends=True, numbers=(1,)) is None


@pytest.mark.parametrize(
    ("present", "misplaced"),
    [
        (("a", "b"), None),
        (("b", "a"), ("b", "a")),
        (("c", "b"), None),
        (("a", "c"), None),
        (("b", "c"), ("b", "a")),
        (("a", "a"), None),
        (("x", "y"), None),
        ((), None),
    ],
)
def test_a_source_that_has_the_place_of_another_one_is_misplaced(
    store: GenerationStore, present: tuple[str, ...], misplaced: tuple[str, str] | None
) -> None:
    """A new source may take the place of an old one, such as a folder under another name."""
    store.begin(ORDERS, LOAD, reason="first run")
    assert store.read(ORDERS, LOAD)[0].misplaced(present) is None
    store.started(ORDERS, LOAD, 1, "id", sources=("a", "b"))
    assert store.read(ORDERS, LOAD)[0].misplaced(present) == misplaced


def test_a_rewind_keeps_the_order_of_the_sources(store: GenerationStore) -> None:
    """Its generation continues the checkpoint of an earlier one."""
    store.begin(ORDERS, LOAD, reason="first run")
    store.started(ORDERS, LOAD, 1, "id", sources=("a", "b"))
    store.adopt(ORDERS, LOAD, 2, reason="rewind", start=None, after_batch=0, rewound_to=1)
    assert store.read(ORDERS, LOAD)[-1].sources == (("a",), ("b",))


@pytest.mark.parametrize(
    ("before", "now", "misplaced"),
    [
        (("/a (files)", "/b (files)"), ("/b (files, g=1)", "/a (files, g=1)"), ("/b (files, g=1)", "/a (files)")),
        (("/a (files)", "/b (files)"), ("/a (files, g=1)", "/b (files)"), None),
        (("/a (f, g=1)", "/a (f, g=2)"), ("/a (f, g=3)", "/a (f, g=1)"), ("/a (f, g=1)", "/a (f, g=2)")),
        (("/a (files)",), ("/a (cloud_files)",), ("/a (cloud_files)", "/a (files)")),
        (("/a (old) (files)", "t"), ("/a (old) (files, x)", "t"), None),
    ],
)  # fmt: skip
def test_sources_are_the_same_with_other_options_but_not_of_another_kind(
    store: GenerationStore, before: tuple[str, ...], now: tuple[str, ...], misplaced: tuple[str, str] | None
) -> None:
    """A folder that gets a glob has its place, and one that is read by another kind of source has other offsets."""
    store.begin(ORDERS, LOAD, reason="first run")
    store.started(ORDERS, LOAD, 1, "id", sources=before)
    assert store.read(ORDERS, LOAD)[0].misplaced(now) == misplaced


def test_sources_without_comparable_ones_are_known_after_a_batch(store: GenerationStore) -> None:
    """Until then they may be in the wrong order, and the right one must not be refused."""
    store.begin(ORDERS, LOAD, reason="first run")
    store.started(ORDERS, LOAD, 1, "id", sources=("a",))
    store.started(ORDERS, LOAD, 1, "id", sources=("b", "a"))
    assert store.read(ORDERS, LOAD)[0].misplaced(("a", "b")) is None
    store.confirm_sources(ORDERS, LOAD, 1, ("a", "b"))
    assert store.read(ORDERS, LOAD)[0].misplaced(("b", "a")) == ("b", "a")


def test_a_source_keeps_a_place_that_it_has_left(store: GenerationStore) -> None:
    """The list of its files is still there."""
    store.begin(ORDERS, LOAD, reason="first run")
    for sources in (("a", "b"), ("z", "b")):
        store.started(ORDERS, LOAD, 1, "id", sources=sources)
    assert store.read(ORDERS, LOAD)[0].sources == (("a", "z"), ("b",))
    assert store.read(ORDERS, LOAD)[0].misplaced(("z", "a")) == ("a", "b")
    assert store.read(ORDERS, LOAD)[0].misplaced(("a", "b")) is None
