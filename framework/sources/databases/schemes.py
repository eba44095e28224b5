"""The schemes of connections, each with the entry point of its dialect: a new engine is one more line here.

Third-party packages add dialects as entry points of the group `sluice.dialects`, named by the scheme, such as
`oracle = "my_package.dialect:MYSQL"`. Nothing is imported before a connection with the scheme is used.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points

GROUP = "sluice.dialects"
_BUILT_IN = {
    "postgresql": "framework.sources.databases.postgres.dialect:POSTGRES",
    "postgres": "framework.sources.databases.postgres.dialect:POSTGRES",
    "mysql": "framework.sources.databases.mysql.dialect:MYSQL",
    "mariadb": "framework.sources.databases.mysql.dialect:MYSQL",
    "sqlserver": "framework.sources.databases.sqlserver.dialect:SQLSERVER",
}


def find_dialect(scheme: str) -> EntryPoint | None:
    """Return the entry point of the dialect that reads connections of a scheme; None if there is none."""
    if scheme in _BUILT_IN:
        return EntryPoint(name=scheme, value=_BUILT_IN[scheme], group=GROUP)
    return next((each for each in _installed() if each.name == scheme), None)


def known_dialects() -> tuple[EntryPoint, ...]:
    """Return the entry points of all dialects, each once."""
    built_in = (EntryPoint(name=scheme, value=value, group=GROUP) for scheme, value in _BUILT_IN.items())
    places = {each.value: each for each in (*built_in, *_installed())}
    return tuple(places.values())


def connection_example() -> str:
    """Return example connection strings of all dialects that provide one."""
    examples = (each.load().facts.connection_example for each in known_dialects())
    return " or ".join(filter(None, examples))


@cache
def _installed() -> tuple[EntryPoint, ...]:
    """Return the entry points of installed packages; a process reads the files of all packages for them once."""
    return tuple(entry_points(group=GROUP))
