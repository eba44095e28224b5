"""docs/securing.md as it is written: a server behind a proxy that signs users in, over real sockets."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.support.served_place import Place, ask
from tests.support.sign_in_proxy import PROXY_ADDRESS, signing_in

_API = "/api/sluice/v1"
_GROUPS = {"ada": "staff,data-team", "bob": "staff", "eve": "visitors"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A folder with a recorded pipeline."""
    return Place(tmp_path_factory.mktemp("served"))


def commands() -> list[list[str]]:
    """The arguments of the commands of the page."""
    page = (Path(__file__).parents[3] / "docs" / "securing.md").read_text("utf-8")
    blocks = re.findall(r"```shell\n(.*?)```", page.replace("\\\n", ""), re.DOTALL)
    return [shlex.split(each)[1:] for each in blocks]


@pytest.fixture(scope="module")
def behind(place: Place) -> Iterator[tuple[str, str]]:
    """The address of the proxy, and that of the server behind it, with the settings of the page."""
    here = {"~/pipelines": ".", "0.0.0.0": "127.0.0.1", "10.0.0.5": PROXY_ADDRESS}  # noqa: S104 - what is replaced
    _, (command, *arguments) = commands()
    assert "serve" == command
    with place.serving(*(here.get(each, each) for each in arguments)) as (_, address):
        url = address.partition("/#c=")[0]
        with signing_in(url, _GROUPS) as proxy:
            yield proxy, url


def status(url: str, headers: dict[str, str], body: Any = None) -> int:
    """The status of an answer."""
    try:
        return 200 if ask(url, headers, body) else 0
    except HTTPError as error:
        return error.code


def page_of(user: str, **more: str) -> dict[str, str]:
    """The headers of the page of a user in a browser, which reaches the proxy by its public name."""
    own = {"Host": "data.example.com", "Origin": "https://data.example.com", "Sec-Fetch-Site": "same-origin"}
    return {**own, "X-Sluice-Request": "1", "Content-Type": "application/json", "Cookie": f"proxy={user}", **more}


def test_the_groups_of_the_proxy_are_roles(behind: tuple[str, str]) -> None:
    """The highest one counts; a user without a role, or whom the proxy does not know, is refused."""
    url = behind[0] + _API
    assert [("ada", "operate"), ("bob", "view")] == [
        (me["user"], me["role"]) for me in (ask(f"{url}/whoami", page_of(each))[0] for each in ("ada", "bob"))
    ]
    assert 403 == status(f"{url}/whoami", page_of("eve"))
    assert 401 == status(f"{url}/whoami", page_of(""))
    assert 403 == status(f"{url}/pipelines/shop/stop", page_of("bob"), {})
    assert 200 == status(f"{url}/pipelines/shop/stop", page_of("ada"), {})


def test_nobody_else_signs_users_in(behind: tuple[str, str]) -> None:
    """Neither a client of the proxy, nor a program that reaches the server without it."""
    proxy, server = behind
    said = {"X-Forwarded-User": "ada", "X-Forwarded-Groups": "data-team"}
    spelled = {"X_Forwarded_User": "ada", "X_Forwarded_Groups": "data-team"}
    assert "bob" == ask(f"{proxy}{_API}/whoami", page_of("bob", **said))[0]["user"]
    assert "bob" == ask(f"{proxy}{_API}/whoami", page_of("bob", **spelled))[0]["user"]
    assert 403 == status(f"{server}{_API}/whoami", said)
    assert 403 == status(f"{server}{_API}/whoami", {**said, "X-Forwarded-For": PROXY_ADDRESS})


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}, 403),
        ({"X-Sluice-Request": ""}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Host": "evil.example", "Origin": "https://evil.example"}, 421),
    ],
)
def test_the_page_of_another_site_uses_no_cookie_of_the_proxy(
    behind: tuple[str, str], headers: dict[str, str], expected: int
) -> None:
    """The browser sends that cookie with the request of any page."""
    assert expected == status(f"{behind[0]}{_API}/pipelines/shop/stop", page_of("ada", **headers), {})


def test_a_program_sends_its_token_through_the_proxy(place: Place, behind: tuple[str, str]) -> None:
    """It counts more than the user; a revoked one is refused."""
    token = place.run("token", "create", "nightly", "--role", "read").stdout.strip()
    headers = page_of("ada", Authorization=f"Bearer {token}")
    me = ask(f"{behind[0]}{_API}/whoami", headers)[0]
    assert ("nightly", "token") == (me["user"], me["via"])
    place.run("token", "revoke", "nightly")
    assert 401 == status(f"{behind[0]}{_API}/whoami", headers)


def test_the_stream_comes_through_the_proxy(behind: tuple[str, str]) -> None:
    """Its first message is there while the stream is open."""
    request = Request(f"{behind[0]}{_API}/stream", headers=page_of("bob"))  # noqa: S310 - our own server
    with urlopen(request, timeout=20) as stream:  # noqa: S310 - our own server
        lines = [stream.readline() for _ in range(3)]
    assert b"event: snapshot\n" == lines[1]
    assert ["shop"] == [each["name"] for each in json.loads(lines[2].removeprefix(b"data: "))["pipelines"]]


def test_https_needs_the_files_of_the_page(place: Place) -> None:
    """The other command of the page is refused for the lack of its certificate, before anything listens."""
    first, _ = commands()
    done = place.run(*(each.replace("~/pipelines", ".") for each in first))
    assert (2, True) == (done.returncode, "cert.pem" in done.stderr)
