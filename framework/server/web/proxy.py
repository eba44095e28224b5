"""A proxy that signs users in, such as oauth2-proxy: its headers say who asks, and nobody else's headers do."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from starlette.requests import Request

from framework.server.access.roles import Caller, Role
from framework.server.web.faults import WebFault, invalid

_USER, _GROUPS = "x-forwarded-user", "x-forwarded-groups"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+|:/=-]{0,199}")
_GROUP = re.compile(r"[A-Za-z0-9/][A-Za-z0-9._@+|:/= -]{0,199}")
_MOST_GROUPS = 500

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedProxy:
    """What a proxy may say.

    Args:
        networks: the addresses of the proxy; another client that sends its headers is refused.
        roles: the role of each group; a user has the highest of all groups, and without one may do nothing.
    """

    networks: tuple[Network, ...]
    roles: Mapping[str, Role]

    def caller(self, request: Request) -> Caller | None:
        """Return the user that the proxy has signed in; None for a request without one.

        Raises:
            WebFault: 403 for a header of the proxy that is not from it, or a user without a role; 400 for headers that
                are ambiguous: given twice, or in a spelling that some program may read as the same.
        """
        users, groups = _values(request, _USER), _values(request, _GROUPS)
        if not users and not groups:
            return None
        peer = "" if request.client is None else request.client.host
        if not self._is_trusted(peer):
            raise WebFault(403, "PERMISSION_DENIED", f"{peer} is not the proxy of this server, and signs nobody in.")
        user = _only(users, _USER)
        if not _NAME.fullmatch(user):
            raise invalid("X-Forwarded-User must be one name.")
        role = self._role(_only(groups, _GROUPS) if groups else "")
        if role is None:
            raise WebFault(403, "PERMISSION_DENIED", f"{user} is in no group that has a role: --proxy-role GROUP=ROLE.")
        return Caller(user=user, role=role, via="proxy")

    def _role(self, text: str) -> Role | None:
        names = [each.strip() for each in text.split(",") if each.strip()]
        if len(names) > _MOST_GROUPS or not all(map(_GROUP.fullmatch, names)):
            raise invalid("X-Forwarded-Groups must be a list of names with commas between them.")
        found = [self.roles[each] for each in names if each in self.roles]
        return max(found, key=list(Role).index, default=None)

    def _is_trusted(self, peer: str) -> bool:
        try:
            address = ipaddress.ip_address(peer)
        except ValueError:
            return False
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        return any((mapped or address) in each for each in self.networks)


def _values(request: Request, name: str) -> list[str]:
    """Return the values of a header.

    Raises:
        WebFault: 400 if it is there in another spelling, which some proxies pass on without replacing it.
    """
    for each in request.headers:
        if each != name and each.replace("_", "-") == name:
            raise invalid(f"The header {each!r} is not known here; {name!r} is.")
    return request.headers.getlist(name)


def _only(values: Sequence[str], name: str) -> str:
    """Return the value of a header that is given once.

    Raises:
        WebFault: 400.
    """
    if len(values) != 1:
        raise invalid(f"The header {name!r} must be given once.")
    return values[0]
