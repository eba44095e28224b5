"""Markdown pages: a test runs every example, and every link resolves."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tests.support.sources import ROOT, tracked_files

# The tests that run all blocks of a page.
RUN_BY = {
    "README.md": ("tests/spark/test_readme.py", "tests/e2e/test_installation.py"),
    "docs/alerts.md": ("tests/unit/operations/alerting/test_alerts.py",),
    "docs/auto-cdc.md": ("tests/spark/test_auto_cdc_page.py",),
    "docs/declaring.md": ("tests/spark/test_declaring_page.py",),
    "docs/bundles.md": ("tests/unit/cli/test_bundle_page.py",),
    "docs/databases.md": ("tests/databases/test_databases_page.py",),
    "docs/launchers.md": ("tests/unit/server/test_launch_file.py",),
    "docs/mysql.md": ("tests/databases/mysql/test_mysql_page.py",),
    "docs/sqlserver.md": ("tests/databases/test_sqlserver_ingestion.py", "tests/databases/test_sqlserver_preflight.py"),
    "docs/comparing.md": ("tests/spark/test_comparing_page.py",),
    "docs/doctor.md": ("tests/spark/test_doctor_page.py",),
    "docs/files.md": ("tests/spark/test_files_page.py",),
    "docs/monitoring.md": ("tests/unit/server/test_metrics.py",),
    "docs/notebooks.md": ("tests/e2e/test_notebooks.py",),
    "docs/quarantine.md": ("tests/spark/test_quarantine_page.py",),
    "docs/schedules.md": ("tests/unit/operations/scheduling/test_schedule_files.py",),
    "docs/securing.md": ("tests/unit/server/test_securing_page.py",),
    "docs/server.md": (
        "tests/e2e/test_server.py",
        "tests/unit/server/test_serve_command.py",
        "tests/unit/server/test_databricks_face.py",
    ),
    "docs/testing.md": ("tests/e2e/test_testing_kit.py",),
    "docs/sql.md": ("tests/spark/test_sql_files.py",),
    "docs/recovery.md": ("tests/spark/test_recovery_page.py",),
    "docs/databricks.md": ("tests/conformance/test_on_databricks.py", "tests/spark/test_databricks_page.py"),
}
_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)")
_BLOCK = re.compile(r"^```(?:python|shell|console|yaml|sql)$", re.MULTILINE)


def test_a_test_runs_every_example_of_a_page() -> None:
    """Each page with a Python, shell, YAML or SQL block has tests that name the page."""
    pages = {path.relative_to(ROOT).as_posix() for path in tracked_files() if path.suffix == ".md"}
    shown = {page for page in pages if page == "README.md" or page.startswith("docs/")}
    assert {page for page in shown if _BLOCK.search((ROOT / page).read_text("utf-8"))} == set(RUN_BY)
    missing = [
        test for page, tests in RUN_BY.items() for test in tests
        if page.rpartition("/")[2] not in (ROOT / test).read_text("utf-8")
    ]  # fmt: skip
    assert missing == []


def test_the_readme_has_no_block_that_no_test_runs() -> None:
    """The tests select the README's blocks by language and first words; there is no other block."""
    blocks = re.findall(r"^```(\w+)\n(\S+ \S+)", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    assert blocks == [
        ("shell", "python3 -m"),
        ("python", "# first.py"),
        ("python", "from framework"),
        ("yaml", "name: airport"),
        ("shell", "mkdir -p"),
    ]


def test_every_relative_link_resolves() -> None:
    """Links of Markdown pages point to an existing file or folder, and their anchors to a heading of the page."""
    broken = []
    for page in (path for path in tracked_files() if path.suffix == ".md"):
        for path, anchor in _LINK.findall(page.read_text("utf-8")):
            target = page.parent / path if path else page
            if not target.exists() or (anchor and anchor not in _anchors(target)):
                broken.append(f"{page.relative_to(ROOT)}: {path}{anchor and '#'}{anchor}")
    assert broken == []


def test_the_index_lists_every_decision() -> None:
    """docs/adr/README.md links each decision once, by number, with the decision's own title."""
    folder = ROOT / "docs/adr"
    titles = {path.name: path.read_text("utf-8").partition("\n")[0] for path in folder.glob("0*.md")}
    expected = [(int(name[:4]), title, name) for name, title in sorted(titles.items()) if name != "0000-template.md"]
    rows = re.findall(r"^\| (\d+) \| \[(.+)\]\((.+)\) \|$", (folder / "README.md").read_text("utf-8"), re.MULTILINE)
    assert [(int(number), f"# {number}. {title}", name) for number, title, name in rows] == expected


def test_the_architecture_page_lists_every_room_and_floor() -> None:
    """Its tables have the layers of the import contracts: the rooms in any order, the floors from the top."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    layers = {
        contract["id"]: [name for layer in contract["layers"] for name in re.findall(r"\w+", layer)]
        for contract in contracts
        if contract["type"] == "layers"
    }
    rooms = set(layers.pop("rooms")) - {"__main__"}
    page = (ROOT / "docs/ARCHITECTURE.md").read_text("utf-8")
    listed, floors = (page.partition(f"| room | {head}")[2].partition("\n\n")[0] for head in ("contents", "floors"))
    assert {name for cell in re.findall(r"^\| ([^|]+) \|", listed, re.MULTILINE) for name in _quoted(cell)} == rooms
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", floors, re.MULTILINE)
    assert {room: _quoted(re.sub(r"\([^)]*\)", "", cell)) for room, cell in rows} == layers


def _quoted(cell: str) -> list[str]:
    """Return the names in backticks of a table's cell."""
    return re.findall(r"`(\w+)`", cell)


def _anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives to a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
