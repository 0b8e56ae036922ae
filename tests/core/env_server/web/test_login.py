"""The page of a server with a token: a browser gives it once and gets a cookie, which no other site can use."""

import httpx
import pytest

from openenv.core.env_server import ServerConfig, create_app
from tests.core.counting_env import CountingEnvironment


@pytest.fixture
def http(serving):
    """A client without the token."""
    with httpx.Client(base_url=serving(create_app(CountingEnvironment, config=ServerConfig(token="sesame")))) as client:
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
