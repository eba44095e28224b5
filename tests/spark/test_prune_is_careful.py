"""`prune` and updates touch no table that is declared, in use, foreign, or changed since a person looked."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from framework import Pipeline
from framework import pipelines as dp
from framework.foundation import failpoints
from framework.foundation.errors import SluiceError
from framework.plan.steps import KeepStored, RefuseTable
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld
from tests.support.plain_tables import table_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> EngineWorld:
    """A source of two rows."""
    world = EngineWorld(spark, tmp_path)
    world.feed([(1,), (2,)], "id LONG")
    return world


FEED = {"delta.enableChangeDataFeed": "true"}


def views(world: EngineWorld, *names: str, **paths: str) -> Callable[[], None]:
    """Declares a materialized view for each name, those of `paths` with their own path."""

    def declare() -> None:
        for name in (*names, *paths):

            @dp.materialized_view(name=name, path=paths.get(name), table_properties=FEED)
            def query() -> DataFrame:
                return world.spark.read.format("delta").load(world.source())

    return declare


def kept(pipeline: Pipeline) -> dict[str, str]:
    """Return the tables that the plan lists as kept, with the reason."""
    return {step.dataset.table: step.reason for step in pipeline.plan().steps if isinstance(step, KeepStored)}


def left(pipeline: Pipeline) -> list[str]:
    """The tables that `prune` would drop."""
    return [table.name.table for table in pipeline.left_tables()]


def test_a_table_that_something_else_still_uses_is_kept_and_the_plan_says_why(world: EngineWorld) -> None:
    """A renamed dataset with the same path, all ways to read a table, links, folders around others, sinks, files."""
    root = world.root
    (root / "real").mkdir()
    (root / "link").symlink_to(root / "real")
    world.run(
        views(
            world, "named", "sunk", "spare", "free", "loaded", "tabled", "nested", "fed",
            renamed_from=f"{root}/same", linked_from=f"{root}/link/t",
            around=f"{root}/outer", by_path=f"{root}/by_path", alone=f"{root}/alone", crowded=f"{root}/crowded",
        )
    )  # fmt: skip
    (root / "crowded" / "notes.txt").write_text("not Delta's")

    def declare() -> None:
        views(world, renamed_to=f"{root}/same", linked_to=f"{root}/real/t", inside=f"{root}/outer/inner")()
        dp.create_sink(name="sunk", format="delta", options={"path": f"{root}/sunk"})

        @dp.append_flow(target="sunk")
        def into_sink() -> DataFrame:
            return world.spark.readStream.format("delta").load(world.source())

        @dp.materialized_view
        def reader() -> DataFrame:
            return world.spark.read.table("named")

        dp.create_sink(name="spare", format="delta", options={"path": f"{root}/spare"})

        @dp.table
        def follower() -> DataFrame:
            return world.spark.readStream.format("delta").load(f"{root}/by_path")

        @dp.temporary_view
        def loader() -> DataFrame:
            return world.spark.read.format("delta").load(world.path("loaded"))

        @dp.materialized_view
        def by_table() -> DataFrame:
            tabled = world.spark.read.table(f"delta.`{world.path('tabled')}`")
            changes = world.spark.read.format("delta").options(readChangeFeed=True, startingVersion=0)
            return tabled.union(changes.load(world.path("fed")).select("id"))

        @dp.materialized_view
        def by_subquery() -> DataFrame:
            nested = f"SELECT id FROM delta.`{world.path('nested')}`"
            return world.spark.sql(f"SELECT id FROM range(3) WHERE id IN ({nested})")

    pipeline = world.pipeline(declare)
    assert left(pipeline) == ["alone", "free"]
    prefix = "no longer declared, table kept; "
    assert {name: reason.removeprefix(prefix) for name, reason in kept(pipeline).items()} == {
        "named": "main.s.reader reads it",
        "by_path": "main.s.follower reads it",
        "sunk": "a sink of the pipeline has the same name",
        "renamed_from": "its folder overlaps with that of main.s.renamed_to",
        "linked_from": "its folder overlaps with that of main.s.linked_to",
        "around": "its folder overlaps with that of main.s.inside",
        "spare": "a sink of the pipeline has the same name",
        "loaded": "main.s.loader reads it",
        "tabled": "main.s.by_table reads it",
        "fed": "main.s.by_table reads it",
        "nested": "main.s.by_subquery reads it",
        "crowded": "its folder also contains notes.txt, which does not belong to the table",
        "alone": "`sluice prune` drops it",
        "free": "`sluice prune` drops it",
    }
    assert [table.name.table for table in pipeline.prune(pipeline.left_tables())] == ["alone", "free"]
    assert not Path(world.path("free")).exists()
    assert not (root / "alone").exists()
    assert all(Path(root, folder, "_delta_log").exists() for folder in ("same", "real/t", "outer", "by_path"))


def test_a_table_around_the_storage_is_never_dropped(world: EngineWorld) -> None:
    """A dataset's `path` may be the folder that contains the storage."""
    world.run(views(world, "a", outer=str(world.root)))
    assert kept(world.pipeline(views(world, "a")))["outer"].endswith("its folder contains the storage of the pipeline")
    assert left(world.pipeline(views(world, "a"))) == []


def test_what_changed_since_a_person_looked_is_not_dropped(world: EngineWorld) -> None:
    """The dataset returns in the code of this object, or another process updates its table in the meantime."""
    world.run(views(world, "a", "b", "c"))
    names = ["a"]

    def declare() -> None:
        views(world, *names)()

    pipeline = world.pipeline(declare)
    shown = pipeline.left_tables()
    assert [table.name.table for table in shown] == ["b", "c"]
    names.append("b")
    world.feed([(3,)], "id LONG")
    world.run(views(world, "a", "c"))
    assert pipeline.prune(shown) == ()
    assert (world.rows("b"), world.rows("c")) == ([(1,), (2,)], [(1,), (2,), (3,)])


def test_a_foreign_table_in_the_place_of_a_recorded_one_is_not_ours(world: EngineWorld) -> None:
    """Another program recreates the table, or the dataset's `path` changes to a table of another program."""

    def stream() -> None:
        @dp.table
        def table() -> DataFrame:
            return world.spark.readStream.format("delta").load(world.source())

    def both(**paths: str) -> Callable[[], None]:
        def declare() -> None:
            stream()
            views(world, "view", **paths)()

        return declare

    world.run(both(moves=f"{world.root}/before"))
    for path in (world.path("table"), world.path("view"), f"{world.root}/after"):
        shutil.rmtree(path, ignore_errors=True)
        world.spark.range(7, 9).write.format("delta").save(path)
    after = world.pipeline(both(moves=f"{world.root}/after"))
    assert left(world.pipeline(views(world, "other"))) == ["moves"]
    refused = [step.dataset.table for step in after.plan().steps if isinstance(step, RefuseTable)]
    assert sorted(refused) == ["moves", "table", "view"]
    for request in ({}, {"full_refresh_all": True}):
        assert after.run(**request).state is UpdateState.FAILED  # type: ignore[arg-type]
    assert (world.rows("table"), world.rows("view")) == ([(7,), (8,)], [(7,), (8,)])
    assert len(table_rows(world.spark, f"{world.root}/after")) == 2
    with pytest.raises(SluiceError) as caught:
        after.table("view")
    assert caught.value.condition == "TABLE_NOT_OWNED"


class StoppedHereError(Exception):
    """Raised by a failpoint to simulate a crash."""


def test_a_prune_that_was_cut_short_never_drops_a_table_that_was_made_since(world: EngineWorld) -> None:
    """The next update finishes the deletion, but not of a table that another program created there."""
    world.run(views(world, "a", "b"))
    pipeline = world.pipeline(views(world, "a"))

    def stop() -> None:
        raise StoppedHereError

    failpoints.arm("prune.before_table", action=stop)
    try:
        with pytest.raises(StoppedHereError):
            pipeline.prune(pipeline.left_tables())
    finally:
        failpoints.disarm()
    shutil.rmtree(world.path("b"))
    world.spark.range(7, 9).write.format("delta").save(world.path("b"))
    assert world.run(views(world, "a")).state is UpdateState.COMPLETED
    assert world.rows("b") == [(7,), (8,)]


def test_a_pipeline_that_may_lack_code_prunes_nothing(world: EngineWorld) -> None:
    """A library pattern that matches no file, and code that declares nothing, would make tables look undeclared."""
    world.run(views(world, "a", "b"))
    with pytest.raises(SluiceError) as caught:
        world.pipeline(lambda: None).left_tables()
    assert caught.value.condition == "PRUNE_NOTHING_DECLARED"
    root = world.root
    (root / "code").mkdir()
    (root / "code" / "one.py").write_text(
        "from framework import pipelines as dp\n@dp.materialized_view\ndef a():\n    return spark.range(1)\n"
    )
    (root / "pipeline.yml").write_text(
        f"name: {world.name}\nschema: s\nstorage: {root}/storage\nlibraries:\n"
        "  - glob: {include: code/**}\n  - glob: {include: cdoe/**}\n"
    )
    pipeline = Pipeline.from_spec(root / "pipeline.yml", spark=world.spark)
    for act in (pipeline.left_tables, lambda: pipeline.prune(())):
        with pytest.raises(SluiceError) as caught:
            act()
        assert (caught.value.condition, caught.value.fields["pattern"]) == ("PRUNE_LIBRARY_EMPTY", "cdoe/**")
        assert caught.value.location is not None
        assert caught.value.location.line == 6


def test_a_copied_storage_has_no_power_over_the_tables_of_its_original(world: EngineWorld) -> None:
    """A prune in the copy takes the tables of the copy; whose those outside of the storage are is unknown there."""
    own = {"inside": str(world.root / "storage/own/inside"), "outside": str(world.root / "lake/tables/main/s/outside")}
    names = ["gone", "inside", "outside"]
    world.run(views(world, "gone", "stays", **own))
    twin = world.copy(world.root / "twin")
    copied = twin.pipeline(views(twin, "stays"))
    assert left(copied) == ["gone", "inside"]
    copied.prune(copied.left_tables())
    assert (left(copied), Path(twin.path("gone")).exists()) == ([], False)
    original = world.pipeline(views(world, "stays"))
    assert left(original) == names
    for path in (world.path("gone"), *own.values()):
        assert len(table_rows(world.spark, path)) == 2
    original.prune(original.left_tables())
    assert [Path(path).exists() for path in (world.path("gone"), *own.values())] == [False] * 3


def test_a_prune_that_is_finished_in_a_copied_storage_takes_the_tables_of_the_copy(world: EngineWorld) -> None:
    """The mark names a folder of the original."""
    own = {"inside": str(world.root / "storage/own/inside"), "outside": str(world.root / "outside")}
    world.run(views(world, "stays", **own))
    pipeline = world.pipeline(views(world, "stays"))

    def die() -> None:
        raise InterruptedError

    for table in pipeline.left_tables():
        failpoints.arm("prune.before_table", action=die)
        with pytest.raises(InterruptedError):
            pipeline.prune([table])
        failpoints.disarm()
    twin = world.copy(world.root / "twin")
    assert twin.run(views(twin, "stays")).state is UpdateState.COMPLETED
    assert [Path(path).exists() for path in own.values()] == [True, True]
    assert not (twin.root / "storage/own/inside").exists()


def test_a_prune_that_was_interrupted_before_its_storage_was_moved_is_finished(
    world: EngineWorld, tmp_path: Path
) -> None:
    """A table outside of the storage goes, too. In a copy it stays: it is that of the original, which finishes it."""
    outside = tmp_path / "lake" / "outside"
    world.run(views(world, "inside", outside=str(outside)))
    pipeline = world.pipeline(views(world, "inside"))

    def die() -> None:
        raise InterruptedError

    failpoints.arm("prune.after_mark", action=die)
    with pytest.raises(InterruptedError):
        pipeline.prune(pipeline.left_tables())
    failpoints.disarm()
    places = {}
    for place in ("copied", "moved"):
        (shutil.copytree if place == "copied" else shutil.move)(world.root / "storage", tmp_path / place / "storage")
        other = EngineWorld(world.spark, tmp_path / place)
        other.name = world.name
        assert other.run(views(world, "inside")).state is UpdateState.COMPLETED
        places[place] = outside.exists()
        assert list((other.root / "storage" / "prunes").iterdir()) == []
    assert places == {"copied": True, "moved": False}
