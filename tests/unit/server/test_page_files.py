"""The files of the page: everybody may read them, browsers ask for them again, and nothing else can be reached."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.server.app import PAGE_PATHS
from tests.support.served_pipelines import served
from tests.support.server_world import World, world_of

_STATIC = Path(__file__).parents[3] / "framework" / "server" / "page" / "static"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A server over one pipeline."""
    folder = tmp_path_factory.mktemp("served")
    served(folder / "shop")
    with world_of(folder) as made:
        yield made


def test_each_path_of_the_page_is_the_page(world: World) -> None:
    """Also of a screen that is opened by its address; the page itself asks who you are."""
    index = (_STATIC / "index.html").read_text("utf-8")
    for path in PAGE_PATHS:
        answer = world.client.get(path.replace("{rest:path}", "shop/u/1"))
        assert (200, "text/html; charset=utf-8", index) == (
            answer.status_code,
            answer.headers["content-type"],
            answer.text,
        )


def test_the_policy_allows_the_import_map_and_no_other_inline_script(world: World) -> None:
    """Its hash is that of the file that is served; each other script and style is a file of ours."""
    answer = world.client.get("/")
    scripts = re.findall(r"<script([^>]*)>(.*?)</script>", answer.text, re.DOTALL)
    inline = [text for attributes, text in scripts if "src=" not in attributes]
    hashes = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in inline]
    policy = answer.headers["content-security-policy"]
    assert [f"'sha256-{each}'" for each in hashes] == re.findall(r"'sha256-[^']+'", policy)
    assert not re.search(r"<style|style=|\son\w+=|https?://", answer.text)


@pytest.mark.parametrize(
    "path", sorted(each.relative_to(_STATIC).as_posix() for each in _STATIC.rglob("*.*js") if each.is_file())
)
def test_scripts_are_scripts_and_are_asked_for_again(world: World, path: str) -> None:
    """With the type that browsers run, compressed, and unchanged files are not sent twice."""
    answer = world.ask("GET", f"/static/{path}", role=None, headers={"Accept-Encoding": "gzip"})
    kind = answer.headers["content-type"].partition(";")[0]
    assert (200, "text/javascript", "no-cache") == (answer.status_code, kind, answer.headers["cache-control"])
    assert (_STATIC / path).stat().st_size < 1_000 or "gzip" == answer.headers["content-encoding"]
    again = world.ask("GET", f"/static/{path}", role=None, headers={"If-None-Match": answer.headers["etag"]})
    assert 304 == again.status_code


@pytest.mark.parametrize(
    "path",
    ["../vendor.json", "..%2fvendor.json", "%2e%2e/vendor.json", "js/../../vendor.json", "/etc/passwd", "none.js", ""],
)
def test_nothing_else_is_a_file(world: World, path: str) -> None:
    """Neither files beside the folder nor its list."""
    answer = world.ask("GET", f"/static/{path}", role=None)
    assert 404 == answer.status_code
    assert "licence" not in answer.text
