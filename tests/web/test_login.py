"""The page of a server with a token: a browser gives it once and gets a cookie, which no other site can use."""

import logging
from pathlib import Path

import httpx
import pytest

from openenv.core.env_server import ServerConfig, create_app
from openenv.pages.runs import runs_app
from openenv.web.login_limit import MAX_FAILED, WINDOW_S, LoginLimit
from tests.core.counting_env import CountingEnvironment


@pytest.fixture
def http(serving):
    """A client without the token."""
    with httpx.Client(base_url=serving(create_app(CountingEnvironment, config=ServerConfig(token="sesame")))) as client:
        yield client


@pytest.fixture(params=["an environment's server", "the page of runs"])
def login(request, serving, tmp_path):
    """The login page of each kind of server."""
    config = ServerConfig(token="sesame")
    is_page = request.param == "the page of runs"
    app = runs_app(Path(tmp_path), config) if is_page else create_app(CountingEnvironment, config=config)
    with httpx.Client(base_url=f"{serving(app)}/web", timeout=20) as client:
        client.headers["Origin"] = str(client.base_url).removesuffix("/web/")
        yield client


@pytest.fixture
def own(http):
    """The headers of the server's own page, in a client that has logged in."""
    headers = {"Origin": str(http.base_url)}
    assert http.post("/web/login", data={"token": "sesame"}, headers=headers).status_code == 303
    return headers


@pytest.mark.parametrize(("path", "login"), [("/web", "web/login"), ("/web/", "login")])
def test_a_page_without_the_token_leads_to_the_login(http, path, login):
    assert http.get(path).headers["location"] == login
    assert http.get("/web/login").status_code == 200
    assert http.get("/web/assets/page.css").status_code == 200
    assert http.post("/web/reset").status_code == http.get("/docs").status_code == 401


def test_the_cookie_opens_the_page_and_its_routes(http, own):
    assert http.get("/web/").status_code == 200
    assert http.post("/web/reset", headers=own).status_code == 200
    assert http.get("/metrics").status_code == 200


def test_a_wrong_token_gets_no_cookie(http):
    refused = http.post("/web/login", data={"token": "wrong"}, headers={"Origin": str(http.base_url)})

    assert (refused.status_code, refused.headers.get("set-cookie")) == (401, None)
    assert "not the server&#39;s token" in refused.text


def test_a_request_that_no_page_names_itself_in_changes_nothing(http, own):
    assert http.post("/web/reset").status_code == 401
    assert http.post("/web/reset", headers={"Origin": "http://evil.example"}).status_code == 403
    assert http.post("/reset", headers=own).status_code == 200


def test_the_cookie_of_another_token_is_none(http, own, serving):
    other = serving(create_app(CountingEnvironment, config=ServerConfig(token="other")))

    assert httpx.get(f"{other}/web/", cookies=dict(http.cookies)).status_code == 303
    assert "sesame" not in str(dict(http.cookies))


def test_over_tls_the_cookie_is_secure_and_of_the_mounted_path():
    from openenv.core.env_server.http.page_cookie import PageCookie

    header = PageCookie("sesame").header("https", "/games")

    assert header.endswith("; Path=/games; HttpOnly; SameSite=Strict; Secure")
    assert PageCookie("sesame").is_in(f"a=b; {header.partition(';')[0]}")


@pytest.mark.finding("the login page is limited in size and attempts")
def test_a_body_that_is_larger_than_a_login_is_refused_before_it_is_read(login):
    def endless():
        for _ in range(64):
            yield b"token=" + b"&a=b" * 4096

    assert login.post("/login", content=b"token=" + b"x" * (1 << 20)).status_code == 413
    assert login.post("/login", content=endless()).status_code == 413
    assert login.post("/login", data={"token": "sesame"}).status_code == 303


@pytest.mark.finding("the login page is limited in size and attempts")
def test_wrong_tokens_are_logged_and_after_ten_their_address_has_to_wait(login, caplog):
    with caplog.at_level(logging.WARNING):
        statuses = [login.post("/login", data={"token": f"guess {n}"}).status_code for n in range(MAX_FAILED + 1)]
    refused = login.post("/login", data={"token": "sesame"})

    assert statuses == [*[401] * MAX_FAILED, 429]
    assert (refused.status_code, "Too many wrong tokens" in refused.text) == (429, True)
    assert 0 < int(refused.headers["retry-after"]) <= WINDOW_S
    assert sum("wrong token at the login page: address=127.0.0.1" in row for row in caplog.messages) == MAX_FAILED
    assert not any("guess" in row for row in caplog.messages)


@pytest.mark.parametrize("sent", ["one header", "two headers"])
def test_with_all_proxies_trusted_a_caller_cannot_choose_the_address_that_has_to_wait(serving, sent):
    config = ServerConfig(token="sesame", trusted_proxies=("*",))
    with httpx.Client(base_url=serving(create_app(CountingEnvironment, config=config)), timeout=20) as client:
        client.headers["Origin"] = str(client.base_url)

        def status(invented, seen):
            chain = [f"{invented}, {seen}"] if sent == "one header" else [invented, seen]
            headers = [("X-Forwarded-For", part) for part in chain]
            return client.post("/web/login", data={"token": "wrong"}, headers=headers).status_code

        statuses = [status(f"192.0.2.{number}", "198.51.100.7") for number in range(MAX_FAILED + 1)]

        assert statuses == [*[401] * MAX_FAILED, 429]
        assert status("192.0.2.1", "198.51.100.8") == 401


def test_an_address_may_try_again_after_a_minute_and_others_at_any_time():
    now = 100.0
    limit = LoginLimit(lambda: now)
    for _ in range(MAX_FAILED):
        limit.count_failed("2001:db8::1")

    assert limit.wait_s("2001:db8::2") == WINDOW_S  # of the same network
    assert limit.wait_s("2001:db8:0:1::1") == limit.wait_s("192.0.2.1") == 0
    now += WINDOW_S
    assert limit.wait_s("2001:db8::1") == 0


def test_as_many_addresses_are_remembered_as_fit_into_a_small_memory():
    limit = LoginLimit()
    for number in range(5000):
        limit.count_failed(f"10.0.{number // 256}.{number % 256}")

    assert len(limit._failed) == 1024
