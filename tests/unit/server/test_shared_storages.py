"""Pipelines that share a storage, and pipelines whose spec is renamed or deleted, are never mixed."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.foundation.errors import UserError
from framework.server.engines.start_request import StartRequest
from framework.server.engines.starter import Starter
from framework.server.pipelines import PipelineEntry, find_pipelines
from framework.server.server import Ports
from tests.support.served_pipelines import eventually, fake_command, root_of, runs_of, served, starter_of, write_spec
from tests.support.server_world import World, world_of


def sharing(folder: Path) -> tuple[PipelineEntry, PipelineEntry]:
    """Two pipelines, `bank` and `shop`, with one storage."""
    (folder / "both").mkdir()
    for name in ("bank", "shop"):
        write_spec(folder / name, name, f"storage: {folder}/both\n")
    bank, shop = find_pipelines([folder]).entries
    return bank, shop


def hold(entry: PipelineEntry) -> None:
    """Let engines of a storage run until they are stopped."""
    (root_of(entry) / "engine-wait").touch()


def test_a_pipeline_neither_shows_nor_stops_the_update_of_another_in_its_storage(tmp_path: Path) -> None:
    """A stop without an update means the pipeline's own, on both faces; the other one's goes on."""
    bank, shop = sharing(tmp_path)
    hold(shop)
    with world_of(tmp_path, ports=Ports(command=fake_command)) as world:
        update = world.post("/pipelines/shop/updates", {})["update_id"]
        eventually(lambda: world.get("/pipelines/shop")["activity"] == "RUNNING", world.server.look)
        assert ("IDLE", []) == (
            world.get("/pipelines/bank")["activity"],
            world.get("/pipelines/bank/updates")["requests"],
        )
        world.post("/pipelines/bank/stop", {})
        world.post(f"/api/2.0/pipelines/{bank.pipeline_id}/stop", {}, status=200)
        assert 404 == world.ask("POST", "/pipelines/bank/stop", {"update_id": update}).status_code
        assert 409 == world.ask("POST", "/pipelines/bank/updates", {}).status_code
        for path in ("", "/log", "/board"):
            assert 404 == world.ask("GET", f"/pipelines/bank/updates/{update}{path}").status_code
        assert not (root_of(shop) / "requests").exists()
        world.post("/pipelines/shop/stop", {})
        eventually(lambda: world.get("/pipelines/shop")["activity"] == "IDLE", world.server.look)
        assert "CANCELED" == world.get("/pipelines/shop")["last"]["state"]


def test_two_pipelines_of_a_storage_run_one_after_the_other(tmp_path: Path) -> None:
    """The storage has one lock, so the second waits before its process exists, and does not fail at the lock."""
    bank, shop = sharing(tmp_path)
    hold(shop)
    starter = starter_of(bank, shop)
    first = starter.request(shop, StartRequest())
    second = starter.request(bank, StartRequest(queue=True))
    assert "WAITING_FOR_RESOURCES" == second.state
    (root_of(shop) / "engine-wait").unlink()
    eventually(lambda: runs_of(shop) == [first.update_id, second.update_id], starter.tick)


@pytest.mark.parametrize("spelling", ["{0}/both", "{0}/shop/../both", "{0}/link", "file:{0}/both"])
def test_two_specs_of_one_name_and_one_storage_are_one_pipeline_and_a_fault(tmp_path: Path, spelling: str) -> None:
    """Their updates can't be told apart, however the storage is spelled: the second is said to be broken, with why."""
    (tmp_path / "both").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "both")
    write_spec(tmp_path / "a", "shop", f"storage: {tmp_path}/both\n")
    write_spec(tmp_path / "b", "shop", f"storage: {spelling.format(tmp_path)}\n")
    (tmp_path / "shop").mkdir()
    found = find_pipelines([tmp_path])
    (entry,), (fault,) = found.entries, found.faults
    assert (tmp_path / "a" / "pipeline.yml", "SERVE_PIPELINE_TWICE") == (entry.spec_file, fault.condition)
    assert (str(tmp_path / "b" / "pipeline.yml"), True) == (fault.file, str(entry.spec_file) in fault.what)


def test_a_storage_behind_a_link_has_one_claim(tmp_path: Path) -> None:
    """A server does not take its own claim for that of another one."""
    (tmp_path / "both").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "both")
    write_spec(tmp_path / "bank", "bank", f"storage: {tmp_path}/both\n")
    write_spec(tmp_path / "shop", "shop", f"storage: {tmp_path}/link\n")
    bank, shop = find_pipelines([tmp_path]).entries
    starter = starter_of(bank, shop)
    assert [True, True] == [starter.serves(each) for each in (bank, shop)]


def rename(entry: PipelineEntry, name: str) -> None:
    """Give the spec of a pipeline another name."""
    entry.spec_file.write_text(entry.spec_file.read_text().replace(f"name: {entry.name}", f"name: {name}"))


def change(entry: PipelineEntry, how: str) -> None:
    """Rename, delete or break the spec of a pipeline."""
    if how == "renamed":
        rename(entry, "store")
    elif how == "deleted":
        entry.spec_file.unlink()
        (entry.spec_file.parent / "pipeline.yml").write_text("name: other\nlibraries: []\n")
    else:
        entry.spec_file.write_text("name: [")


def running(world: World) -> str:
    """An update of `shop` that runs."""
    update: str = world.post("/pipelines/shop/updates", {})["update_id"]
    eventually(lambda: world.get("/pipelines/shop")["activity"] == "RUNNING", world.server.look)
    return update


@pytest.mark.parametrize("how", ["renamed", "deleted", "broken"])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_the_update_of_a_pipeline_without_a_spec_is_shown_and_stopped(
    tmp_path: Path, how: str, *, is_restarted: bool
) -> None:
    """Under its own name, with why nothing else of it starts, also by a server that starts later; then it is gone."""
    entry = served(tmp_path / "shop")
    hold(entry)
    with world_of(tmp_path, ports=Ports(command=fake_command)) as world:
        update = running(world)
        if not is_restarted:
            change(entry, how)
            world.server.find()
            stop_left(world, update)
    if is_restarted:
        change(entry, how)
        with world_of(tmp_path, ports=Ports(command=fake_command)) as again:
            again.tokens.update(world.tokens)
            stop_left(again, update)
    assert [update] == runs_of(entry)


def stop_left(world: World, update: str) -> None:
    """Check that `shop`, which has no spec, shows its update, and stop it."""
    world.server.look()
    row = world.get("/pipelines/shop")
    assert ("RUNNING", update, "SERVE_SPEC_GONE") == (
        row["activity"],
        row["update"]["update_id"],
        row["fault"]["condition"],
    )
    others = [each for each in world.get("/pipelines")["pipelines"] if each["name"] != "shop"]
    assert [] == [each["update"] for each in others if each["update"] is not None]
    for path in ("updates", "jobs/plan"):
        refused = world.ask("POST", f"/pipelines/shop/{path}", {"sluice": {"queue": True}} if path == "updates" else {})
        assert (400, "SERVE_SPEC_GONE") == (refused.status_code, refused.json()["details"][0]["condition"])
    world.post("/pipelines/shop/stop", {"reason": "it has no spec"})
    eventually(lambda: (world.get("/pipelines/shop")["last"] or {}).get("state") == "CANCELED", world.server.look)

    def look() -> None:
        world.server.look()
        world.server.find()

    eventually(lambda: world.ask("GET", "/pipelines/shop").status_code == 404, look)  # its process ends later


def test_what_waits_under_an_old_name_does_not_run_as_the_new_one(tmp_path: Path) -> None:
    """A request is for a pipeline, and not for whatever its spec becomes before its turn."""
    entry = served(tmp_path)
    hold(entry)
    starter = starter_of(entry)
    first = starter.request(entry, StartRequest())
    second = starter.request(entry, StartRequest(queue=True))
    rename(entry, "store")
    with pytest.raises(UserError) as refused:
        starter.request(entry, StartRequest(queue=True))
    (root_of(entry) / "engine-wait").unlink()
    eventually(lambda: ended(starter, entry, second.update_id), starter.tick)
    assert ("SERVE_SPEC_GONE", [first.update_id]) == (refused.value.condition, runs_of(entry))


def ended(starter: Starter, entry: PipelineEntry, update_id: str) -> bool:
    """Whether an update has failed because its pipeline has no spec."""
    report = starter.stop(entry, update_id=update_id) if not starter.waiting() else None
    return report is not None and report.state == "FAILED"
