"""The pages' examples are examples of what works: a test runs each of them."""

from __future__ import annotations

import re

from tests.support.sources import ROOT, tracked_files

# The test that runs all blocks of a page.
RUN_BY = {
    "README.md": ("tests/spark/test_readme.py", "tests/e2e/test_installation.py"),
    "docs/auto-cdc.md": ("tests/spark/test_auto_cdc_page.py",),
    "docs/bundles.md": ("tests/unit/cli/test_bundle_page.py",),
    "docs/databricks.md": ("tests/conformance/test_on_databricks.py",),
}
_BLOCK = re.compile(r"^```(?:python|shell|console|yaml|sql)$", re.MULTILINE)


def test_a_test_runs_every_example_of_a_page() -> None:
    """A page with a block of code, of a shell or of a spec has tests that name it."""
    pages = {path.relative_to(ROOT).as_posix() for path in tracked_files() if path.suffix == ".md"}
    shown = {page for page in pages if page == "README.md" or page.startswith("docs/")}
    assert {page for page in shown if _BLOCK.search((ROOT / page).read_text("utf-8"))} == set(RUN_BY)
    missing = [
        test for page, tests in RUN_BY.items() for test in tests
        if page.rpartition("/")[2] not in (ROOT / test).read_text("utf-8")
    ]  # fmt: skip
    assert missing == []


def test_the_readme_has_no_block_that_no_test_runs() -> None:
    """Its blocks are those that its tests pick out by their language and beginning."""
    blocks = re.findall(r"^```(\w+)\n(\S+ \S+)", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    assert blocks == [
        ("shell", "python3 -m"),
        ("python", "# first.py"),
        ("python", "from framework"),
        ("yaml", "name: airport"),
        ("shell", "mkdir -p"),
    ]
