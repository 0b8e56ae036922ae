"""A page that an author has built with Gradio for the published package is served beside ours."""

import gradio
import httpx
import pytest
from gradio_client import Client

from openenv.core.env_server import create_app
from openenv.web.published.interface import create_web_interface_app
from tests.core.counting_env import CountAction, CountingEnvironment, CountObservation

MESSAGES = (CountAction, CountObservation)


def built(web_manager, action_fields, metadata, is_chat_env, title, quick_start_md):
    """A builder with the published parameters: a button that adds, and a text of what it was given."""

    async def add(amount):
        await web_manager.reset_environment({})
        return (await web_manager.step_environment({"amount": amount}))["observation"]["total"]

    with gradio.Blocks() as blocks:
        gradio.Markdown(f"{title}: {metadata.description} {is_chat_env}\n{quick_start_md}")
        amount, total = gradio.Number(precision=0), gradio.Number()
        gradio.Button(str([field["name"] for field in action_fields])).click(add, amount, total, api_name="add")
    return blocks


def test_a_tab_plays_its_environment_and_our_page_links_to_it(serving):
    url = serving(
        create_web_interface_app(CountingEnvironment, *MESSAGES, gradio_builder=built, custom_tab_name="Adder")
    )
    total = Client(f"{url}/web/custom/", verbose=False).predict(4, api_name="/add")
    config = httpx.get(f"{url}/web/custom/config").text

    assert total == 4
    assert '<a href="custom/">Adder</a>' in httpx.get(f"{url}/web/").text
    assert "['amount', 'mischief']" in config
    assert "CountingEnvironment: Adds amounts; ends at ten. False" in config
    assert httpx.get(url).headers["location"] == "web/"
    assert httpx.post(f"{url}/web/reset").status_code == 200


@pytest.mark.parametrize("choice", [{"custom_tab_primary": True}, {"show_default_tab": False}])
def test_a_primary_tab_is_where_the_root_leads(serving, choice):
    url = serving(create_web_interface_app(CountingEnvironment, *MESSAGES, gradio_builder=built, **choice))

    assert httpx.get(url).headers["location"] == "web/custom/"
    assert httpx.get(f"{url}/web/custom/").status_code == 200


def test_create_app_adds_the_tab_where_the_variable_turns_the_page_on(serving, monkeypatch):
    for value, status in (("true", 200), ("", 404)):
        monkeypatch.setenv("ENABLE_WEB_INTERFACE", value)
        url = serving(create_app(CountingEnvironment, *MESSAGES, gradio_builder=built))
        assert httpx.get(f"{url}/web/custom/").status_code == status


def test_a_builder_that_returns_no_blocks_is_refused():
    with pytest.raises(TypeError, match=r"gradio_builder returned str: return gradio\.Blocks"):
        create_web_interface_app(CountingEnvironment, *MESSAGES, gradio_builder=lambda *_: "page")


def test_without_gradio_the_page_is_served_and_the_remedy_is_logged(serving, monkeypatch, caplog):
    monkeypatch.setattr("openenv.web.gradio_tab.importlib.util.find_spec", lambda name: None)
    url = serving(create_web_interface_app(CountingEnvironment, *MESSAGES, gradio_builder=built))

    assert httpx.get(f"{url}/web/").status_code == 200
    assert "pip install gradio" in caplog.text
