"""A proxy signs users in, from its own address only, with headers that can be read in one way only."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from framework.foundation.errors import UserError
from framework.server.access.roles import Role
from framework.server.serving import trusted_proxy
from framework.server.web.guard import Policy
from framework.server.web.proxy import TrustedProxy
from framework.server.web.routes import OWN_FACE
from tests.support.server_world import URL, World, record_shop, world_of

PROXY = TrustedProxy(
    networks=(ipaddress.ip_network("10.0.0.5/32"), ipaddress.ip_network("fd00::/64")),
    roles={"/data/team": Role.OPERATE, "all staff": Role.VIEW, "admins": Role.MANAGE},
)
ADA = [("X-Forwarded-User", "ada@example.com"), ("X-Forwarded-Groups", "all staff,/data/team")]
OWN = [("Origin", URL), ("X-Sluice-Request", "1")]
Headers = Sequence[tuple[str, str]]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A server behind a proxy at 10.0.0.5, which the client is."""
    folder = tmp_path_factory.mktemp("served")
    record_shop(folder / "shop")
    with world_of(folder, policy=Policy(port=8642, proxy=PROXY), peer="10.0.0.5") as made:
        yield made


def ask(world: World, headers: Headers, method: str = "GET", path: str = "/whoami") -> Any:
    """The response to a request with these headers, in this order, also twice the same."""
    content = None if method == "GET" else b"{}"
    more = [] if method == "GET" else [("Content-Type", "application/json")]
    return world.client.request(method, OWN_FACE + path, content=content, headers=[*headers, *more])


@pytest.mark.parametrize(
    ("groups", "role"),
    [
        ("all staff,/data/team", "operate"), ("/data/team, all staff", "operate"), ("admins", "manage"),
        ("all staff", "view"), (" all staff ,unknown", "view"),
    ],
)  # fmt: skip
def test_a_user_of_the_proxy_has_the_highest_role_of_its_groups(shared: World, groups: str, role: str) -> None:
    """Without a token, and without a session of the server."""
    found = ask(shared, [("X-Forwarded-User", "ada@example.com"), ("X-Forwarded-Groups", groups)])
    assert {"user": "ada@example.com", "role": role, "via": "proxy", "token": None} == found.json()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([("X-Forwarded-User", "ada")], 403),
        ([("X-Forwarded-User", "ada"), ("X-Forwarded-Groups", "")], 403),
        ([("X-Forwarded-User", "ada"), ("X-Forwarded-Groups", "ADMINS")], 403),
        ([("X-Forwarded-User", ""), ("X-Forwarded-Groups", "admins")], 400),
        ([("X-Forwarded-Groups", "admins")], 400),
        ([*ADA, ("X-Forwarded-User", "eve")], 400),
        ([*ADA, ("x-forwarded-groups", "admins")], 400),
        ([("X_Forwarded_User", "eve"), ("X-Forwarded-Groups", "admins")], 400),
        ([*ADA, ("X_Forwarded_User", "eve")], 400),
        ([*ADA, ("X-Forwarded_Groups", "admins")], 400),
        ([("X-Forwarded-User", "ada, eve"), ("X-Forwarded-Groups", "admins")], 400),
        ([("X-Forwarded-User", "ada\teve"), ("X-Forwarded-Groups", "admins")], 400),
        ([("X-Forwarded-User", "a" * 201), ("X-Forwarded-Groups", "admins")], 400),
        ([("X-Forwarded-User", "ada"), ("X-Forwarded-Groups", "admins;x")], 400),
        ([("X-Forwarded-User", "ada"), ("X-Forwarded-Groups", ",".join(f"g{n}" for n in range(600)))], 400),
        ([("X-Auth-Request-User", "ada"), ("X-Auth-Request-Groups", "admins")], 401),
        ([("X-Forwarded-Email", "ada@example.com"), ("X-Forwarded-Preferred-Username", "ada")], 401),
        ([("Forwarded", "for=10.0.0.5"), ("X-Forwarded-For", "10.0.0.5")], 401),
    ],
)
def test_what_is_ambiguous_or_has_no_role_signs_nobody_in(shared: World, headers: Headers, status: int) -> None:
    """Twice, empty, joined, in another spelling, in another header, or with groups that have no role."""
    assert status == ask(shared, headers).status_code


@pytest.mark.parametrize("peer", ["127.0.0.1", "10.0.0.6", "fd01::1", "::ffff:10.0.0.6", "proxy", ""])
def test_the_headers_of_another_client_are_refused(tmp_path: Path, peer: str) -> None:
    """Also with a good token beside them, and whatever it says about its own address: it imitates the proxy."""
    record_shop(tmp_path / "shop")
    with world_of(tmp_path, policy=Policy(port=8642, proxy=PROXY), peer=peer) as world:
        said = [("X-Forwarded-For", "10.0.0.5"), ("X-Real-IP", "10.0.0.5")]
        assert 403 == ask(world, [*ADA, *said]).status_code
        assert 403 == ask(world, [*ADA, *world.headers().items()]).status_code
        assert 200 == ask(world, [*world.headers().items()]).status_code


@pytest.mark.parametrize("peer", ["10.0.0.5", "::ffff:10.0.0.5", "fd00::17"])
def test_the_proxy_is_known_by_each_form_of_its_address(tmp_path: Path, peer: str) -> None:
    """A server that listens on IPv6 sees addresses of IPv4 in another form."""
    record_shop(tmp_path / "shop")
    with world_of(tmp_path, policy=Policy(port=8642, proxy=PROXY), peer=peer) as world:
        assert "ada@example.com" == ask(world, ADA).json()["user"]


def test_without_a_trusted_proxy_its_headers_sign_nobody_in(tmp_path: Path) -> None:
    """They are as if they were not there."""
    record_shop(tmp_path / "shop")
    with world_of(tmp_path, peer="10.0.0.5") as world:
        assert 401 == ask(world, ADA).status_code


@pytest.mark.parametrize(
    "headers",
    [[], OWN[:1], OWN[1:], [("Origin", "http://evil.example"), OWN[1]], [*OWN, ("Sec-Fetch-Site", "cross-site")]],
)
def test_another_page_cannot_use_the_session_of_the_proxy(shared: World, headers: Headers) -> None:
    """A browser adds the cookie of the proxy to requests of any page, as that of the server."""
    assert 403 == ask(shared, [*ADA, *headers], "POST", "/pipelines/shop/stop").status_code
    assert 202 == ask(shared, [*ADA, *OWN], "POST", "/pipelines/shop/stop").status_code


def test_a_user_of_the_proxy_has_its_role_and_no_more(shared: World) -> None:
    """As a token with that role; a cookie of another session does not add to it."""
    shared.client.cookies.set("sluice_8642", shared.server.sessions.cookie())
    try:
        assert 403 == ask(shared, [*ADA, *OWN], path="/tokens").status_code
    finally:
        shared.client.cookies.clear()


def test_a_token_goes_through_the_proxy_and_what_else_it_sends_does_not_matter(shared: World) -> None:
    """A program means its token; the basic authorization that oauth2-proxy adds is not ours."""
    token = [*shared.headers(Role.READ).items()]
    assert ("ci-read", "token") == tuple(ask(shared, [*ADA, *token]).json()[each] for each in ("user", "via"))
    assert "proxy" == ask(shared, [*ADA, ("Authorization", "Basic YWRhOg==")]).json()["via"]
    assert 401 == ask(shared, [*ADA, ("Authorization", "Bearer slk_wrong")]).status_code


def test_signing_out_of_the_server_leaves_the_proxy(shared: World) -> None:
    """The proxy has its own way out; nothing of the server ends."""
    assert 200 == ask(shared, [*ADA, *OWN], "DELETE", "/session").status_code
    assert 200 == ask(shared, ADA).status_code


@pytest.mark.parametrize(
    ("networks", "roles"),
    [
        (["10.0.0.5/32"], []), ([], ["team=view"]), (["0.0.0.0/0"], ["team=view"]), (["::/0"], ["team=view"]),
        (["10.0.0.5/8"], ["team=view"]), (["proxy"], ["team=view"]), ([""], ["team=view"]),
        (["10.0.0.5"], ["team"]), (["10.0.0.5"], ["team=root"]), (["10.0.0.5"], ["=view"]),
        (["10.0.0.5"], ["a,b=view"]), (["10.0.0.5"], ["team=view", "team=manage"]),
    ],
)  # fmt: skip
def test_a_proxy_that_could_be_anybody_is_refused(networks: list[str], roles: list[str]) -> None:
    """Before anything listens: all addresses, no addresses, no roles, unknown roles, and one group with two roles."""
    with pytest.raises(UserError) as refused:
        trusted_proxy(networks, roles)
    assert "SERVE_PROXY_INVALID" == refused.value.condition


def test_an_address_without_a_mask_is_one_address() -> None:
    """And the group may have equals signs, as the names of a directory have."""
    found = trusted_proxy(["10.0.0.5"], ["cn=team,dc=x=view".replace(",", " "), "b=read"])
    assert found is not None
    assert ({"cn=team dc=x": Role.VIEW, "b": Role.READ}, ["10.0.0.5/32"]) == (found.roles, [*map(str, found.networks)])
    assert trusted_proxy([], []) is None
