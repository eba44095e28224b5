"""The files of the page: small, from known sources, and without a request that could be spared."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from pathlib import Path

from framework import server

HERE = Path(server.__file__).parent / "page"
STATIC = HERE / "static"
_MOST_BYTES = 92_000
_MOST_FIRST = 56_000
_IMPORTS = re.compile(r"^import .*? from '(\./[\w.-]+\.js|[\w/]+)';$", re.MULTILINE)
_LATE = re.compile(r"import\('(\./[\w.-]+\.js)'\)")


def _files() -> list[Path]:
    return sorted(each for each in STATIC.rglob("*") if each.is_file())


def _imported(name: str) -> set[str]:
    """The modules that a module of ours imports when it is loaded, as files of `static`."""
    known = json.loads(re.findall(r'importmap">(.*?)</script>', (STATIC / "index.html").read_text())[0])["imports"]
    found = _IMPORTS.findall((STATIC / "js" / name).read_text("utf-8"))
    return {f"js/{each[2:]}" if each.startswith("./") else known[each].removeprefix("/static/") for each in found}


def _sizes() -> dict[str, int]:
    """The bytes of each file as the server sends it: compressed by itself; licences are not sent."""
    sent = (each for each in _files() if "LICENSE" not in each.name)
    return {str(each.relative_to(STATIC)): len(gzip.compress(each.read_bytes(), 9)) for each in sent}


def _named() -> list[str]:
    """The modules that the page names for the first screen."""
    return re.findall(r'modulepreload" href="/static/([^"]+)"', (STATIC / "index.html").read_text("utf-8"))


def test_the_first_screen_is_small() -> None:
    """The home screen and a pipeline's graph take at most 56 kB over the wire: libraries, code and styles."""
    first = {*_named(), "js/app.js", "index.html", "app.css", "icon.svg"}
    assert sum(size for name, size in _sizes().items() if name in first) <= _MOST_FIRST


def test_all_files_of_the_page_are_small() -> None:
    """All screens together take at most 92 kB over the wire."""
    assert sum(_sizes().values()) <= _MOST_BYTES, _sizes()


def test_libraries_are_those_of_the_record() -> None:
    """Each library has its version, its licence and the hashes of its files beside it."""
    records = json.loads((HERE / "vendor.json").read_text("utf-8"))
    recorded = {name: digest for record in records for name, digest in record["files"].items()}
    stored = {
        each.name: hashlib.sha256(each.read_bytes()).hexdigest()
        for each in (STATIC / "vendor").iterdir()
        if "LICENSE" not in each.name
    }
    assert stored == recorded
    assert {each["license"] for each in records} == {"MIT", "Apache-2.0"}
    assert all((STATIC / "vendor" / f"LICENSE.{each['name']}").is_file() for each in records)


def test_modules_of_the_first_screen_are_asked_for_at_once() -> None:
    """The page names every module that its first screen imports, so that none waits for another."""
    found, open_ = {"js/app.js"}, ["app.js"]
    while open_:
        for each in _imported(open_.pop()) - found:
            found.add(each)
            if each.startswith("js/"):
                open_.append(each.removeprefix("js/"))
    assert sorted(_named()) == sorted(found - {"js/app.js"})


def test_no_file_sets_html_or_asks_another_host() -> None:
    """Texts become text nodes, styles are set by properties, and no address of another host is in our code."""
    forbidden = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|https?://"
    )
    allowed = "http://www.w3.org/2000/svg"  # a name, which is not read
    faults = [
        f"{each.name}: {match}"
        for each in [*(STATIC / "js").glob("*.js"), STATIC / "index.html", STATIC / "app.css"]
        for match in forbidden.findall(each.read_text("utf-8").replace(allowed, ""))
    ]
    assert faults == []


def test_all_modules_that_are_loaded_later_exist() -> None:
    """Each module that a screen loads when it is shown is a file of the page."""
    names = {name for each in (STATIC / "js").glob("*.js") for name in _LATE.findall(each.read_text("utf-8"))}
    assert [each for each in sorted(names) if not (STATIC / "js" / each).is_file()] == []
    assert "./updates.js" in names
