"""PostgreSQL servers of other versions than that of the wheel: their programs, from Maven's jars.

The jars are resolved once by Spark's own resolver and then kept in the user's cache, as Delta's are.
"""

from __future__ import annotations

import platform
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from framework.session.jars import resolved_jars
from framework.session.java import find_java

_RELEASES = {14: "14.19.0", 15: "15.14.0", 17: "17.6.0", 18: "18.0.0"}
_PLATFORMS = {
    ("Linux", "x86_64"): "linux-amd64", ("Linux", "aarch64"): "linux-arm64v8",
    ("Darwin", "x86_64"): "darwin-amd64", ("Darwin", "arm64"): "darwin-arm64v8",
}  # fmt: skip
OTHER_VERSIONS = tuple(_RELEASES)
"""Those supported beside the wheel's."""


@contextmanager
def programs_of(version: int) -> Iterator[Path]:
    """Yield a folder with the programs of the server, for any user; client tools are not among them.

    Args:
        version: one of `OTHER_VERSIONS`.
    """
    package = f"embedded-postgres-binaries-{_PLATFORMS[platform.system(), platform.machine()]}"
    coordinate = f"io.zonky.test.postgres:{package}:{_RELEASES[version]}"
    (jar,) = resolved_jars(coordinate, find_java(), str(Path(pyspark.__file__).parent), {}, excluded=())
    with tempfile.TemporaryDirectory(prefix="sluice-postgres-programs-") as made, zipfile.ZipFile(jar) as archive:
        folder = Path(made)
        (name,) = [each for each in archive.namelist() if each.endswith(".txz")]
        with archive.open(name) as packed, tarfile.open(fileobj=packed, mode="r:xz") as programs:
            programs.extractall(folder, filter="data")
        folder.chmod(0o755)
        yield folder
