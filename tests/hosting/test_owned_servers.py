"""A client may own its server: started when first needed, stopped with the client, whichever way the client is used."""

import asyncio
import urllib.request

import pytest

from openenv.core.env_server import create_app
from openenv.core.errors import ContainerFault, NotReady, Unauthorized
from openenv.core.generic_client import GenericEnvClient
from openenv.envs.echo_env import EchoAction, EchoEnv
from openenv.hosting.hub import RemoteCodeRefused
from openenv.hosting.runtime import ContainerProvider, LocalDockerProvider, RuntimeProvider, UVProvider
from tests.core.counting_env import CountAction, CountEnv, CountingEnvironment
from tests.core.env_server.probes import wait_until

pytestmark = pytest.mark.process


def is_up(base_url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{base_url}/health", timeout=2):
            return True
    except OSError:
        return False


def test_a_docker_image_is_played_used_as_it_is(containers):
    env = EchoEnv.from_docker_image("echo-env:latest")
    assert env.base_url is None
    assert env.reset().observation.echoed_message
    assert env.step(EchoAction(message="hello")).observation.echoed_message == "hello"
    base_url = env.base_url
    assert is_up(base_url)
    env.close()

    assert not is_up(base_url)
    assert env.base_url is None


def test_a_docker_image_is_played_in_a_with_statement_and_through_sync(containers):
    with EchoEnv.from_docker_image("echo-env:latest", env_vars={"A": "b"}, wait_timeout=30).sync() as env:
        env.reset()
        assert env.step(EchoAction(message="hello")).observation.echoed_message == "hello"
        base_url = env.base_url

    assert not is_up(base_url)


async def test_a_docker_image_is_played_awaited(containers):
    env = await EchoEnv.from_docker_image("echo-env:latest")
    base_url = env.base_url
    await env.reset()
    assert (await env.step(EchoAction(message="hello"))).observation.echoed_message == "hello"
    await env.close()

    assert not is_up(base_url)


async def test_a_docker_image_is_played_in_an_async_with_statement(containers):
    async with EchoEnv.from_docker_image("echo-env:latest") as env:
        base_url = env.base_url
        assert (await env.reset()).observation.echoed_message

    assert not is_up(base_url)


async def test_first_verbs_awaited_together_start_one_container(containers):
    env = EchoEnv.from_docker_image("echo-env:latest")
    await asyncio.gather(env.connect(), env.connect())
    await asyncio.gather(env.reset(), env.state())
    started = containers()
    await env.close()

    assert len(started) == 1


async def test_a_start_that_is_cancelled_leaves_no_container(containers):
    env = EchoEnv.from_docker_image("echo-env:latest")
    starting = asyncio.ensure_future(env.connect())
    await asyncio.to_thread(wait_until, containers)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert env.base_url is None
    # that no container is left is checked by the fixture


def test_a_container_that_does_not_become_ready_is_removed_and_the_error_has_its_log(containers):
    crashing = ["python3", "-c", "import sys; sys.exit('no module named game')"]
    with pytest.raises(NotReady, match="no module named game"):
        EchoEnv.from_docker_image("echo-env:latest", command=crashing).reset()
    with pytest.raises(ContainerFault, match="Docker has no image 'missing'"):
        EchoEnv.from_docker_image("missing").connect()


def test_a_space_is_played_from_its_image(containers, name_echo_image):
    name_echo_image("registry.hf.space/openenv-echo-env:latest")
    name_echo_image("registry.hf.space/a-b:v2")
    with EchoEnv.from_env("OpenEnv/Echo_Env", port=None) as env, EchoEnv.from_hub("a/b", tag="v2") as other:
        env.reset()
        other.reset()
        started = sorted(container.name.rpartition("-")[0] for container in containers())

    assert started == ["a-b", "openenv-echo-env"]


def test_a_space_is_played_from_its_code(tools, calls_of):
    with EchoEnv.from_env("openenv/echo-env", use_docker=False, trust_remote_code=True) as env:
        env.reset()
        assert env.step(EchoAction(message="hello")).observation.echoed_message == "hello"
        base_url = env.base_url

    assert calls_of("git")[0][3] == "https://huggingface.co/spaces/openenv/echo-env"
    assert not is_up(base_url)


@pytest.mark.parametrize("by_name", [EchoEnv.from_env, EchoEnv.from_hub], ids=["from_env", "from_hub"])
def test_the_code_of_a_space_runs_only_with_trust(by_name, tools, calls_of, monkeypatch):
    monkeypatch.delenv("OPENENV_TRUST_REMOTE_CODE", raising=False)
    with pytest.raises(RemoteCodeRefused, match=r"install git\+https://huggingface.co/spaces/a/b "):
        by_name("a/b", use_docker=False)
    monkeypatch.setenv("OPENENV_TRUST_REMOTE_CODE", "1")
    by_name("a/b", use_docker=False)

    assert calls_of("git") == []


def test_a_space_is_played_from_a_checkout(tools, calls_of, tmp_path):
    with EchoEnv.from_env("a/b", use_docker=False, project_path=str(tmp_path), app="app:app", env_vars={}) as env:
        env.reset()

    assert calls_of("uv")[-1][3] == str(tmp_path)
    assert "app:app" in calls_of("uv")[-1]


@pytest.mark.parametrize("repo_id", ["echo", "a/b/c", "https://example.org/a/b", "a b/c"])
def test_what_names_no_space_is_refused(repo_id):
    with pytest.raises(ValueError, match="is not a Space: give owner/name"):
        EchoEnv.from_env(repo_id)


def test_a_provider_that_is_given_cannot_be_configured_again(tools):
    provider = UVProvider(project_path=".")
    with pytest.raises(ValueError, match="app: not accepted with a provider"):
        EchoEnv.from_env("a/b", use_docker=False, provider=provider, app="x:y")


def test_a_runtime_provider_starts_with_the_client_and_again_after_close(tools):
    env = EchoEnv(provider=UVProvider(project_path="."))
    for _ in range(2):
        with env:
            env.reset()
            base_url = env.base_url
        assert not is_up(base_url)


def test_a_container_provider_without_an_image_names_the_missing_argument(containers):
    with pytest.raises(ValueError, match=r"LocalDockerProvider requires image: use from_docker_image"):
        EchoEnv(provider=LocalDockerProvider()).reset()


def test_a_provider_that_runs_already_is_stopped_with_the_client(containers):
    provider = LocalDockerProvider()
    base_url = provider.start_container("echo-env:latest")
    provider.wait_for_ready(base_url)
    with GenericEnvClient(base_url, provider=provider) as env:
        env.reset()

    assert not is_up(base_url)


def test_disconnect_keeps_the_server_and_ends_the_session(containers):
    with EchoEnv.from_docker_image("echo-env:latest") as env:
        env.reset()
        first = env.session_id
        env.disconnect()
        assert is_up(env.base_url)
        env.reset()

        assert env.session_id != first


def test_a_session_that_cannot_be_opened_on_a_server_just_started_stops_it(containers):
    with pytest.raises(Unauthorized):
        EchoEnv.from_docker_image("echo-env", env_vars={"OPENENV_TOKEN": "secret"}).connect()
    # that no container is left is checked by the fixture


def test_a_new_session_plays_apart_and_is_closed_with_its_parent(serving):
    app = create_app(CountingEnvironment)
    with CountEnv(serving(app), headers={"X-A": "b"}) as env:
        env.reset()
        child = env.new_session()
        child.reset()
        child.step(CountAction(amount=3))
        assert env.state().total == 0
        assert child.session_id != env.session_id
        assert child.address == env.address

    assert child.session_id is None


async def test_a_new_session_of_an_asynchronous_client_is_asynchronous(serving):
    async with CountEnv(serving(create_app(CountingEnvironment))) as env:
        child = await env.new_session()
        assert (await child.reset()).observation.total == 0
        assert child.session_id not in (None, env.session_id)

    assert child.session_id is None


def test_a_new_session_of_a_client_with_a_constructor_of_its_own(serving):
    class Own(CountEnv):
        def __init__(self, base_url):
            super().__init__(base_url, message_timeout_s=7, headers={"X-A": "b"})

    with Own(serving(create_app(CountingEnvironment))) as env:
        child = env.new_session()
        assert child.reset().observation.total == 0
        assert child.address.headers == {"X-A": "b"}


def test_a_provider_that_an_author_wrote_for_the_published_interface_is_driven(serving):
    url = serving(create_app(CountingEnvironment))
    calls = []

    class Cloud(ContainerProvider):
        def start_container(self, image="default", port=None, env_vars=None, **kwargs):
            calls.append(("start", image, env_vars, kwargs))
            return url

        def stop_container(self):
            calls.append(("stop",))

        def wait_for_ready(self, base_url, timeout_s=30.0):
            calls.append(("wait", base_url, timeout_s))

    with CountEnv.from_docker_image("img", Cloud(), env_vars={"A": "b"}, region="x", wait_timeout=5) as env:
        env.reset()
    with CountEnv(provider=Cloud()) as env:
        env.reset()

    assert calls == [
        ("start", "img", {"A": "b"}, {"region": "x"}), ("wait", url, 5), ("stop",),
        ("start", "default", None, {}), ("wait", url, 30.0), ("stop",),
    ]  # fmt: skip


def test_a_failed_stop_is_tried_again_at_the_next_close(serving):
    url = serving(create_app(CountingEnvironment))
    stops = []

    class Stubborn(RuntimeProvider):
        def start(self, port=None, env_vars=None, **kwargs):
            return url

        def stop(self):
            stops.append(1)
            if len(stops) == 1:
                raise RuntimeError("not yet")

        def wait_for_ready(self, timeout_s=30.0):
            pass

    env = CountEnv(provider=Stubborn())
    env.reset()
    with pytest.raises(RuntimeError, match="not yet"):
        env.close()
    env.close()
    env.close()

    assert len(stops) == 2
