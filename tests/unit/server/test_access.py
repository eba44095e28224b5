"""Nobody reaches the server who must not: hosts, origins, codes, cookies, tokens and roles."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from framework.foundation.clock import SystemClock
from framework.foundation.errors import OperationError, UserError
from framework.foundation.secrets.known_secrets import HIDDEN, remember_secrets
from framework.server.access.roles import Role
from framework.server.access.sessions import Sessions
from framework.server.access.tokens import TokenStore
from framework.server.databricks.shapes import run_id_of
from framework.server.serving import Address, bound, check_protected
from framework.server.web.routes import OWN_FACE, Access, Route
from framework.server.workbench.kinds import KINDS
from framework.testing.manual_clock import ManualClock
from tests.support.full_disk import full_disk
from tests.support.server_world import FIRST, URL, World, record_shop, world_of

_SESSION = OWN_FACE + "/session"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A server over the recorded pipeline `shop`, which most tests only ask."""
    folder = tmp_path_factory.mktemp("served")
    record_shop(folder / "shop")
    with world_of(folder) as made:
        yield made


@pytest.fixture
def world(shared: World) -> World:
    """The shared server, with a client that is nobody."""
    shared.client.cookies.clear()
    return shared


@pytest.fixture
def own_world(tmp_path: Path) -> Iterator[World]:
    """A server of the test's own."""
    record_shop(tmp_path / "shop")
    with world_of(tmp_path) as made:
        yield made


def sign_in(world: World, code: str | None = None, **headers: str) -> Any:
    """The response to a page that exchanges a code for a session, which the client then has."""
    own = {"Origin": URL, "X-Sluice-Request": "1", "Content-Type": "application/json", **headers}
    content = json.dumps({"code": code or world.server.sessions.make_code()})
    return world.client.post(_SESSION, content=content, headers={key: value for key, value in own.items() if value})


def filled(route: Route, world: World) -> str:
    """The path of a route with names that exist."""
    pipeline = world.entry().pipeline_id
    names = {"pipeline": pipeline, "update": FIRST, "dataset": "orders", "token": "none", "job": "none", "kind": "rows"}
    return re.sub(r"\{(\w+)\}", lambda found: names[found[1]], route.full_path)


def test_each_route_refuses_each_lower_role(own_world: World) -> None:
    """Generated from the route table: nobody gets 401, a lower role 403, the role itself neither of them."""
    own_world.server.hub.close()  # a stream ends at once
    refused: dict[str, list[int]] = {}
    for route in own_world.routes:
        body: dict[str, Any] | None = None if route.method in {"GET", "DELETE"} else {}
        lower = [] if isinstance(route.role, Access) else [each for each in Role if not each.includes(route.role)]
        path = filled(route, own_world)
        found = [own_world.ask(route.method, path, body, role=each).status_code for each in lower]
        nobody = own_world.ask(route.method, path, body, role=None).status_code
        own = own_world.ask(route.method, path, body, role=Role.VIEW if isinstance(route.role, Access) else route.role)
        expected = {Access.OPEN} if isinstance(route.role, Access) else set()
        if not expected and (nobody != 401 or set(found) - {403} or own.status_code in {401, 403}):
            refused[f"{route.method} {path}"] = [nobody, *found, own.status_code]
    assert {} == refused


def test_no_route_ignores_a_field_or_a_parameter(own_world: World) -> None:
    """Generated from the route table: what a route does not know is an error that names it."""
    own_world.server.hub.close()
    wrong: list[str] = []
    for route in own_world.routes:
        path, role = filled(route, own_world), None if isinstance(route.role, Access) else Role.MANAGE
        has_body = route.method in {"POST", "PUT", "PATCH", "DELETE"}
        body = {"colour": "red"} if has_body and route.status != 501 else None
        own = {"Origin": URL, "X-Sluice-Request": "1"}
        answers = [own_world.ask(route.method, f"{path}?colour=red", {} if has_body else None, role=role, headers=own)]
        answers += [own_world.ask(route.method, path, body, role=role, headers=own)] if body else []
        for twice in route.query[:1]:
            two = "&".join(f"{twice}={value}" for value in ("1", "2"))
            answers.append(own_world.ask(route.method, f"{path}?{two}", role=role))
        wrong += [f"{path} {each.status_code}" for each in answers if each.status_code not in {400, 404, 501}]
        wrong += [
            path for each in answers if each.status_code == 400 and not re.search("colour|more than once", each.text)
        ]
    assert [] == wrong


_NUMBERS = ("-1", "0", "", " ", "x", "1.5", "+1", " 5", "1e3", "٣", "²", "9" * 19, "9" * 6000, "0x10", "NaN")


@pytest.mark.parametrize("number", _NUMBERS)
def test_a_number_without_bounds_is_an_error(world: World, number: str) -> None:
    """On each route that takes one: never an answer of another size, and never an error of ours."""
    entry = world.entry().pipeline_id
    paths = [f"/pipelines/shop/{each}?limit=" for each in ("updates", "grid", "events")]
    paths += [f"/api/2.0/pipelines{each}?max_results=" for each in ("", f"/{entry}/updates", f"/{entry}/events")]
    paths += ["/api/2.2/jobs/runs/get?run_id=", "/api/2.2/jobs/runs/get-output?run_id="]
    found = {world.ask("GET", path + quote(number)).status_code for path in paths}
    assert found <= ({400} if number not in {"0", "9" * 18} else {400, 404})


def test_a_number_may_be_a_text(world: World) -> None:
    """Airflow sends all numbers as texts."""
    entry = world.entry().pipeline_id
    assert 200 == world.ask("GET", "/api/2.0/pipelines?max_results=25").status_code
    assert 200 == world.ask("GET", f"/api/2.0/pipelines/{entry}/events?max_results=25").status_code
    number = run_id_of(FIRST)
    for sent in (number, str(number)):
        assert 200 == world.ask("POST", "/api/2.1/jobs/runs/cancel", {"run_id": sent}).status_code
    others: tuple[Any, ...] = (True, 1.0, None, [number], {"a": 1}, "9" * 6000, -1)
    for wrong in others:
        assert 400 == world.ask("POST", "/api/2.1/jobs/runs/cancel", {"run_id": wrong}).status_code


@pytest.mark.parametrize("token", ["x", "-1", "1" * 10, "00000000-0000-4000-8000-000000000000", "٣", "' OR 1=1"])
def test_a_page_token_of_something_else_is_an_error(world: World, token: str) -> None:
    """It is refused, or nothing is there."""
    entry = world.entry().pipeline_id
    paths = ("/api/2.0/pipelines?page_token=", f"/api/2.0/pipelines/{entry}/updates?page_token=",
             f"/api/2.0/pipelines/{entry}/events?page_token=",
             f"/api/2.0/pipelines/{entry}/events?order_by=timestamp&page_token=",
             "/pipelines/shop/updates?before=", "/pipelines/shop/events?before=")  # fmt: skip
    assert {world.ask("GET", path + quote(token)).status_code for path in paths} <= {400, 404}


def test_a_long_name_is_not_found_and_not_repeated(world: World) -> None:
    """An answer is not as long as the request."""
    name = "x" * 20_000
    paths = (f"/pipelines/{name}", f"/pipelines/shop/updates/{name}", f"/pipelines/shop/datasets/{name}",
             f"/jobs/{name}", f"/api/2.0/pipelines/{name}", f"/pipelines/shop/updates?before={name}")  # fmt: skip
    for path in paths:
        answer = world.ask("GET", path)
        assert (404, True) == (answer.status_code, len(answer.content) < 1_000), path[:40]


def test_a_pattern_of_a_name_takes_one_pass(world: World) -> None:
    """A pattern with many wildcards would occupy the server for ever as a regular expression."""
    pattern = "%".join("a" * 60)
    answer = world.get(f"/api/2.0/pipelines?filter={quote(f'name LIKE {chr(39)}%{pattern}%b{chr(39)}')}")
    assert [] == answer["statuses"]


def test_open_routes_are_these(world: World) -> None:
    """A new route without a role is a decision."""
    assert [("POST", _SESSION), ("GET", OWN_FACE + "/health"), ("GET", "/.well-known/databricks-config")] == [
        (each.method, each.full_path) for each in world.routes if isinstance(each.role, Access)
    ]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_each_kind_of_job_needs_its_role(world: World, kind: str) -> None:
    """The route of jobs is for all, so each kind refuses lower roles itself."""
    lower = [each for each in Role if not each.includes(KINDS[kind].role)]
    path = f"/pipelines/shop/jobs/{kind}"
    assert [403] * len(lower) == [world.ask("POST", path, {}, role=each).status_code for each in lower]


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example:8642",
        "evil@127.0.0.1",
        "",
        "127.0.0.1:x",
        "[::2]",
    ],
)
def test_a_page_of_another_name_for_this_machine_reaches_nothing(world: World, host: str) -> None:
    """DNS rebinding: the Host header is that of the other page, which is refused on each path."""
    for path in ("/health", "/pipelines", "/static/js/app.js"):
        assert 421 == world.ask("GET", path, headers={"Host": host}).status_code


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8642", "127.0.0.1:8642", "[::1]:8642"])
def test_the_names_of_this_machine_are_known(world: World, host: str) -> None:
    """With and without the port."""
    assert 200 == world.ask("GET", "/health", headers={"Host": host}).status_code


def test_a_code_signs_in_once(world: World) -> None:
    """The cookie is for this port, unreadable for scripts and for other sites; the second use of the code is 401."""
    code = world.server.sessions.make_code()
    response = sign_in(world, code)
    cookie = response.headers["set-cookie"].lower()
    assert (200, "ada", "manage") == (response.status_code, response.json()["user"], response.json()["role"])
    assert ["sluice_8642=", "httponly", "samesite=strict", "path=/", "max-age=43200"] == [
        each
        for each in ("sluice_8642=", "httponly", "samesite=strict", "path=/", "max-age=43200", "secure")
        if each in cookie
    ]
    assert 200 == world.ask("GET", "/pipelines", role=None).status_code
    world.client.cookies.clear()
    assert 401 == sign_in(world, code).status_code
    assert 401 == world.ask("GET", "/pipelines", role=None).status_code


def test_signing_out_ends_the_session_and_not_only_the_cookie(world: World) -> None:
    """A copy of the cookie opens nothing any more, also after a restart; other sessions go on."""
    sign_in(world)
    copy = world.client.cookies["sluice_8642"]
    other = world.server.sessions.cookie()
    own = {"Origin": URL, "X-Sluice-Request": "1"}
    assert 200 == world.ask("DELETE", "/session", role=None, headers=own).status_code
    again = Sessions(world.server.settings.state_folder, SystemClock(), "ada")
    assert [None, None] == [each.caller(copy) for each in (world.server.sessions, again)]
    assert again.caller(other) is not None
    world.client.cookies.set("sluice_8642", copy)
    assert 401 == world.ask("GET", "/pipelines", role=None).status_code


_FOREIGN = (
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": ""},
    {"Origin": "http://localhost:9999"},
    {"Origin": "https://127.0.0.1:8642@evil.example"},
    {"X-Sluice-Request": ""},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
)


@pytest.mark.parametrize("headers", _FOREIGN)
def test_another_page_cannot_use_the_session(world: World, headers: dict[str, str]) -> None:
    """A browser adds the cookie to requests of any page; they lack our origin or our header. Nothing is started."""
    sign_in(world)
    own = {"Origin": URL, "X-Sluice-Request": "1", **headers}
    sent = {key: value for key, value in own.items() if value}
    response = world.ask("POST", "/pipelines/shop/updates", {}, role=None, headers=sent)
    assert (403, "PERMISSION_DENIED") == (response.status_code, response.json()["error_code"])
    assert not (Path(world.entry().storage.root) / "runs").exists()


@pytest.mark.parametrize("headers", [each for each in _FOREIGN if each.get("X-Sluice-Request") is None])
def test_another_page_cannot_sign_a_browser_in(world: World, headers: dict[str, str]) -> None:
    """Nor with a code of its own."""
    assert 403 == sign_in(world, **headers).status_code


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
def test_forms_are_no_requests(world: World, kind: str) -> None:
    """A form needs no permission of the browser, so no change has that content."""
    response = world.ask("POST", "/pipelines/shop/updates", {}, headers={"Content-Type": kind})
    assert 415 == response.status_code


@pytest.mark.parametrize(
    "content", [b"[]", b"{", b'"x"', b"null", b'{"a": "\\u0000"}', b'{"a": "\\ud800"}', b"[" * 5000, b"\xff"]
)
def test_a_body_that_is_no_object_of_texts_is_an_error(world: World, content: bytes) -> None:
    """Also half a character, and a character that no command line can have: nothing is started."""
    headers = {**world.headers(), "Content-Type": "application/json"}
    response = world.client.post(f"{OWN_FACE}/pipelines/shop/updates", content=content, headers=headers)
    assert (400, "INVALID_PARAMETER_VALUE") == (response.status_code, response.json()["error_code"])


@pytest.mark.parametrize("text", ["\\u0000", "\\ud800", "C:\\users", "tab\tand\nline", "😀", "\x01"])
def test_a_text_that_only_looks_like_half_a_character_is_a_text(world: World, text: str) -> None:
    """A backslash is a character like others: the answer is about the field that does not exist."""
    for body in ({"colour": text}, {text: 1}, {"colour": [{"a": text}]}):
        answer = world.ask("POST", "/pipelines/shop/stop", body)
        assert (400, True) == (answer.status_code, "is not supported" in answer.text), answer.text


@pytest.mark.parametrize("depth", [21, 400, 900, 5_000, 400_000])
def test_a_body_that_is_nested_for_ever_is_an_error(world: World, depth: int) -> None:
    """Whatever the parser can take: what reads it later must not fail."""
    headers = {**world.headers(), "Content-Type": "application/json"}
    content = '{"parameters": ' + "[" * depth + "]" * depth + "}"
    answer = world.client.post(f"{OWN_FACE}/pipelines/shop/updates", content=content, headers=headers)
    assert (400, "INVALID_PARAMETER_VALUE") == (answer.status_code, answer.json()["error_code"])


def test_a_body_of_more_than_a_megabyte_is_refused(world: World) -> None:
    """Before it is read into memory."""
    assert 413 == world.ask("POST", "/pipelines/shop/updates", {"cause": "x" * 1_000_001}).status_code


def test_a_token_is_not_taken_from_the_address(world: World) -> None:
    """Addresses are in logs and histories."""
    token = world.headers()["Authorization"].removeprefix("Bearer ")
    for name in ("token", "access_token", "code"):
        assert 401 == world.ask("GET", f"/pipelines?{name}={token}", role=None).status_code


@pytest.mark.parametrize("text", ["", "Bearer", "Bearer x", "Basic YTpi", "Bearer slk_000000000000_" + "a" * 43])
def test_a_wrong_token_is_nobody(world: World, text: str) -> None:
    """Also beside a good session: a program that sends a token means it."""
    sign_in(world)
    assert 401 == world.ask("GET", "/pipelines", role=None, headers={"Authorization": text}).status_code


def test_an_expired_and_a_revoked_token_are_nobody(tmp_path: Path) -> None:
    """Also if another process revokes it; the file has no token, and only its user can read it."""
    clock = ManualClock()
    store, other = TokenStore(tmp_path, clock), TokenStore(tmp_path, clock)
    stored, text = store.create("ci", Role.OPERATE, expires_after=timedelta(days=90))
    _, second = store.create("nightly", Role.VIEW, pipelines=["shop"])
    found = other.caller(text)
    assert found is not None
    assert ("ci", Role.OPERATE, stored.id) == (found.user, found.role, found.token)
    other.revoke("nightly")
    assert store.caller(second) is None
    clock.sleep(90 * 86400)
    assert store.caller(text) is None
    content = (tmp_path / "tokens.json").read_text()
    assert text.split("_", 2)[2] not in content
    assert 0o600 == (tmp_path / "tokens.json").stat().st_mode & 0o777


def test_a_use_does_not_bring_a_revoked_token_back(tmp_path: Path) -> None:
    """The server notes the use of a token while a command revokes another one: both changes stay."""
    clock = ManualClock()
    server, command = TokenStore(tmp_path, clock), TokenStore(tmp_path, clock)
    _, used = server.create("used", Role.VIEW)
    server.create("revoked", Role.VIEW)
    server.list_all()
    command.revoke("revoked")
    server.caller(used)
    assert [("used", "2026-01-01T00:00:00.000Z")] == [(each.name, each.last_used_at) for each in command.list_all()]


def test_a_full_disk_locks_no_program_out(tmp_path: Path) -> None:
    """The last use of a token is not noted then; what can't be stored is an error with its cause."""
    store = TokenStore(tmp_path, ManualClock())
    _, text = store.create("ci", Role.VIEW)
    with full_disk(after=0):
        assert store.caller(text) is not None
        with pytest.raises(OperationError) as refused:
            store.create("second", Role.VIEW)
    assert ("STATE_NOT_WRITABLE", ["ci"]) == (refused.value.condition, [each.name for each in store.list_all()])


def test_a_damaged_file_of_tokens_is_an_error_with_its_path(tmp_path: Path) -> None:
    """Nobody is let in, and the text names the file."""
    (tmp_path / "tokens.json").write_text('{"format": 1, "tokens": [{}]}')
    with pytest.raises(OperationError, match=r"tokens\.json") as refused:
        TokenStore(tmp_path, SystemClock()).list_all()
    assert "STORED_FILE_DAMAGED" == refused.value.condition


@pytest.mark.parametrize("pipelines", [[], [""], [" "], ["shop", ""], ["a\nb"]])
def test_a_token_for_no_pipeline_is_none_for_all(world: World, pipelines: list[str]) -> None:
    """An empty list, as of an empty variable of a script, must not open everything; an unknown name is a typo."""
    with pytest.raises(UserError) as refused:
        world.server.tokens.create("wide", Role.VIEW, pipelines=pipelines)
    assert "SERVE_TOKEN_INVALID" == refused.value.condition
    others: tuple[Any, ...] = (pipelines, ["shpo"], "", 0, False, {})
    for wrong in others:
        body = {"name": "wide", "role": "view", "pipelines": wrong}
        assert 400 == world.ask("POST", "/tokens", body).status_code, wrong
    assert "wide" not in [each.name for each in world.server.tokens.list_all()]


@pytest.mark.parametrize("name", ["", "a b", "../x", "x" * 101, "a\n"])
def test_a_token_needs_a_plain_name(tmp_path: Path, name: str) -> None:
    """It is shown in logs and lists."""
    with pytest.raises(UserError) as refused:
        TokenStore(tmp_path, SystemClock()).create(name, Role.VIEW)
    assert "SERVE_TOKEN_INVALID" == refused.value.condition


def test_a_token_for_some_pipelines_sees_no_other(own_world: World, tmp_path: Path) -> None:
    """Neither in lists nor by id, on both faces; what it may not see does not exist."""
    record_shop(tmp_path / "secret", "secret")
    own_world.server.find()
    _, text = own_world.server.tokens.create("narrow", Role.MANAGE, pipelines=["shop"])
    headers = {"Authorization": f"Bearer {text}"}
    hidden = own_world.entry("secret").pipeline_id
    assert ["shop"] == [
        each["name"] for each in own_world.ask("GET", "/pipelines", role=None, headers=headers).json()["pipelines"]
    ]
    for path in (f"/pipelines/{hidden}", "/pipelines/secret/events", f"/api/2.0/pipelines/{hidden}"):
        assert 404 == own_world.ask("GET", path, role=None, headers=headers).status_code
    assert 404 == own_world.ask("POST", "/pipelines/secret/updates", {}, role=None, headers=headers).status_code
    statuses = own_world.ask("GET", "/api/2.0/pipelines", role=None, headers=headers).json()["statuses"]
    assert ["shop"] == [each["name"] for each in statuses]


def test_a_narrow_token_grants_no_more_than_it_has(world: World) -> None:
    """A token for some pipelines can't make one for all, nor revoke those of others."""
    _, text = world.server.tokens.create("slim", Role.MANAGE, pipelines=["shop"])
    headers = {"Authorization": f"Bearer {text}"}
    body = {"name": "wide", "role": "manage"}
    assert 403 == world.ask("POST", "/tokens", body, role=None, headers=headers).status_code
    assert 403 == world.ask("GET", "/tokens", role=None, headers=headers).status_code
    assert 403 == world.ask("DELETE", "/tokens/slim", role=None, headers=headers).status_code


def test_tokens_are_made_listed_and_revoked_over_the_api(world: World) -> None:
    """The text of a token is in one answer only."""
    made = world.post("/tokens", {"name": "airflow", "role": "operate", "days": 90}, status=201)
    headers = {"Authorization": f"Bearer {made['token']}"}
    assert "operate" == world.ask("GET", "/whoami", role=None, headers=headers).json()["role"]
    assert made["token"] not in world.ask("GET", "/tokens").text
    assert 409 == world.ask("POST", "/tokens", {"name": "airflow", "role": "view"}).status_code
    assert 200 == world.ask("DELETE", "/tokens/airflow").status_code
    assert 401 == world.ask("GET", "/whoami", role=None, headers=headers).status_code
    assert 404 == world.ask("DELETE", "/tokens/airflow").status_code


@pytest.mark.parametrize(
    "body", [{}, {"name": "x"}, {"name": "x", "role": "root"}, {"name": "x", "role": "view", "days": True},
             {"name": "x", "role": "view", "pipelines": "shop"}, {"name": 1, "role": "view"}]
)  # fmt: skip
def test_a_wrong_request_for_a_token_makes_none(world: World, body: dict[str, Any]) -> None:
    """Whatever is missing or of another type."""
    headers, before = world.headers(), world.server.tokens.list_all()
    assert 400 == world.ask("POST", "/tokens", body, headers=headers).status_code
    assert [each.name for each in before] == [each.name for each in world.server.tokens.list_all()]


def test_each_answer_has_the_headers_that_browsers_obey(world: World) -> None:
    """Good answers, errors and refused hosts: no frame, no foreign script, no guessed type, no copy in a cache."""
    answers = [world.ask("GET", "/pipelines"), world.ask("GET", "/none"), world.ask("GET", "/", headers={"Host": "x"})]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'")
        assert "unsafe" not in policy
        assert ("DENY", "nosniff", "no-referrer", "no-store") == tuple(
            answer.headers[each]
            for each in ("x-frame-options", "x-content-type-options", "referrer-policy", "cache-control")
        )
        assert not [each for each in answer.headers if each.startswith("access-control")]
        assert "server" not in answer.headers


def test_no_answer_has_a_known_secret(own_world: World) -> None:
    """A planted secret in names, settings, events and errors is hidden in all answers."""
    secret = "hunter2-planted-secret"  # noqa: S105 - it is planted
    spec = own_world.entry().spec_file
    spec.write_text(spec.read_text() + f"configuration:\n  db.password: {secret}\n  db.url: x://u:{secret}@h/d\n")
    events = Path(own_world.entry().storage.root) / "events" / f"{FIRST}.jsonl"
    events.write_text(events.read_text().replace("There are new files.", f"password={secret}"))
    remember_secrets(secret)
    own_world.server.find()
    texts = [
        own_world.ask("GET", filled(route, own_world)).text
        for route in own_world.routes
        if route.method == "GET" and route.path != "/stream"
    ]
    assert [] == [text for text in texts if secret in text]
    assert any(HIDDEN in text for text in texts)


def test_an_address_for_other_machines_needs_a_token_and_a_name(tmp_path: Path) -> None:
    """Else nothing listens; without a token nobody could be told apart."""
    record_shop(tmp_path / "shop")
    with world_of(tmp_path) as world:
        for address in (Address(host="0.0.0.0"), Address(host="::"), Address(host="box.example")):  # noqa: S104 - nothing listens
            with pytest.raises(UserError) as refused:
                check_protected(world.server, address)
            assert "SERVE_UNPROTECTED" == refused.value.condition
        world.headers()
        with pytest.raises(UserError):
            check_protected(world.server, Address(host="0.0.0.0"))  # noqa: S104 - nothing listens
        check_protected(world.server, Address(host="0.0.0.0", allowed_hosts=("box",)))  # noqa: S104 - nothing listens
        check_protected(world.server, Address(host="::1"))


def test_a_used_port_is_an_error() -> None:
    """One that is named; without a name the next free one is taken."""
    first = bound(Address(port=0))
    used = int(first.getsockname()[1])
    with first, pytest.raises(OperationError, match=str(used)) as refused:
        bound(Address(port=used))
    assert "SERVE_PORT_USED" == refused.value.condition
