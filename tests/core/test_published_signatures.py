"""Callers and subclasses written for the published package find its names, its parameters, and their defaults.

`tests/interop/record_names.py` recorded them.
"""

import importlib

import pytest
from openenv.core.containers.runtime import ContainerProvider

from openenv.core.env_client import EnvClient
from tests.interop.record_names import describe, recorded

_SANDBOX = "a company's sandbox, which needs an account and its library: subclass ContainerProvider for one"
_PROXY = "the endpoint does this inside, in another form: docs/trl.md"
_CHECKS = "the first call of an engine decides what it returns: UpstreamPool.resolve"
_RETOKENIZED = "prompts are never encoded again here"
_MENDS = "an engine's refusal reaches the program, and its request is not changed"
_GRADIO = "the page at /web is plain HTML"
ABSENT = {
    "openenv.core.containers.runtime.aca_provider": _SANDBOX,
    "openenv.core.containers.runtime.daytona_provider": _SANDBOX,
    "openenv.core.containers.runtime.hf_sandbox_provider": _SANDBOX,
    "openenv.core.containers.runtime.modal_provider": _SANDBOX,
    "openenv.core.containers.runtime.novita_provider": _SANDBOX,
    "openenv.core.env_server.gradio_theme": _GRADIO,
    "openenv.core.env_server.gradio_ui": _GRADIO,
    "openenv.core.env_server.web_interface.OPENENV_GRADIO_CSS": _GRADIO,
    "openenv.core.env_server.web_interface.OPENENV_GRADIO_THEME": _GRADIO,
    "openenv.core.env_server.web_interface.build_gradio_app": _GRADIO,
    "openenv.core.env_server.web_interface.get_gradio_display_title": _GRADIO,
    "openenv.core.harness.capture.APIType": _PROXY,
    "openenv.core.harness.capture.LLMReport": _CHECKS,
    "openenv.core.harness.capture.compat": _MENDS,
    "openenv.core.harness.capture.contract.measure_retokenization_skew": _RETOKENIZED,
    "openenv.core.harness.capture.detect": _PROXY,
    "openenv.core.harness.capture.dialects": _PROXY,
    "openenv.core.harness.capture.forwarding": "a tunnel of another service makes the server public: start it yourself",
    "openenv.core.harness.capture.measure_retokenization_skew": _RETOKENIZED,
    "openenv.core.harness.capture.providers": "engines speak Chat Completions",
    "openenv.core.harness.capture.require_llm": _CHECKS,
    "openenv.core.harness.capture.server.APIType": _PROXY,
    "openenv.core.harness.capture.server.AUX_ROUTES": _PROXY,
    "openenv.core.harness.capture.server.TransformManager": _PROXY,
    "openenv.core.harness.capture.server.approximate_token_count": _PROXY,
    "openenv.core.harness.capture.server.aux_dialect": _PROXY,
    "openenv.core.harness.capture.server.aux_token_count_response": _PROXY,
    "openenv.core.harness.capture.server.clamp_output_tokens": _PROXY,
    "openenv.core.harness.capture.server.detect": _PROXY,
    "openenv.core.harness.capture.server.extract_harness_session": _PROXY,
    "openenv.core.harness.capture.server.is_aux_route": _PROXY,
    "openenv.core.harness.capture.server.main": "CaptureServer starts one, and uvicorn serves what create_app returns",
    "openenv.core.harness.capture.server.normalise_": _PROXY,
    "openenv.core.harness.capture.server.wants_stream": _PROXY,
    "openenv.core.harness.capture.sessions.extract_harness_session": _PROXY,
    "openenv.core.harness.capture.sse": _PROXY,
    "openenv.core.harness.capture.upstream.MAX_FIXES": _MENDS,
    "openenv.core.harness.capture.upstream.ParamFix": _MENDS,
    "openenv.core.harness.capture.upstream.diagnose": _MENDS,
    "openenv.core.harness.capture.validate_llm": _CHECKS,
}
"""Names, or modules with all that is in them, that are not here, and why."""
DIFFERENT = {"UVProvider": "the default of host is '127.0.0.1' in place of '0.0.0.0'"}
"""What differs on purpose: a server that a client starts listens on this machine alone."""

NAMES = {
    f"{module}:{name}": published
    for module, names in recorded().items()
    for name, published in names.items()
    if not any(f"{module}.{name}".startswith(absent) for absent in ABSENT)
}


def found(target: str) -> object:
    module, _, name = target.partition(":")
    if NAMES[target]["kind"] == "module":
        return importlib.import_module(f"{module}.{name}")
    return getattr(importlib.import_module(module), name)


def differences(ours: list[list[str]], published: list[list[str]]) -> list[str]:
    """What a call with the published parameters would meet here."""
    wrong = []
    own = {name: (kind, default) for name, kind, default in ours}
    has_any = any(kind == "VAR_KEYWORD" for _, kind, _ in ours)
    positional = [name for name, kind, _ in ours if kind.startswith("POSITIONAL")]
    for number, (name, kind, default) in enumerate(published):
        if kind in ("VAR_KEYWORD", "VAR_POSITIONAL"):
            if not any(other == kind for _, other, _ in ours):
                wrong.append(f"takes no further arguments as {name}")
        elif name not in own:
            wrong += [] if has_any and kind == "KEYWORD_ONLY" else [f"takes no {name}"]
        elif kind.startswith("POSITIONAL") and positional[number : number + 1] != [name]:
            wrong.append(f"{name} is not at position {number}")
        elif default != "required" and own[name][1] == "required":
            wrong.append(f"{name} is required")
        elif default not in ("required", "some") and own[name][1] != default:
            wrong.append(f"the default of {name} is {own[name][1]} in place of {default}")
    known = {name for name, _, _ in published}
    wrong += [f"{name} is required" for name, kind, default in ours
              if default == "required" and not kind.startswith("VAR") and name not in known]  # fmt: skip
    return wrong


@pytest.mark.finding("every public name of the published package exists here")
@pytest.mark.parametrize("target", NAMES)
def test_each_published_name_is_here_and_takes_what_it_took(target):
    published, ours = NAMES[target], describe(found(target))

    if published["kind"] != "constant":
        assert ours["kind"] == published["kind"]
    if published.get("parameters") is not None and "fields" not in published:
        known = {DIFFERENT.get(target.partition(":")[2])}
        assert set(differences(ours["parameters"], published["parameters"])) <= known
    for method, parameters in published.get("methods", {}).items():
        assert differences(ours["methods"][method], parameters) == [], method
    for contents in ("properties", "fields", "members"):
        assert set(published.get(contents, ())) <= set(ours.get(contents, ())), contents


def test_each_absent_name_is_one_that_was_recorded():
    names = {f"{module}.{name}" for module, names in recorded().items() for name in ["", *names]}

    assert [absent for absent in ABSENT if not any(name.startswith(absent) for name in names)] == []


def test_all_of_the_constructor_may_be_given_by_position():
    client = EnvClient("localhost:8000/", 1.0, 2.0, 3.0, 4.0, 5.0, None, "Production", {"X-A": "b"})

    assert client.base_url == "localhost:8000"
    address = client.address
    assert (address.connect_timeout_s, address.message_timeout_s, address.max_size) == (1.0, 2.0, 3 << 20)
    assert (address.ping_interval_s, address.ping_timeout_s, address.headers) == (4.0, 5.0, {"X-A": "b"})


def test_a_mode_that_is_none_is_refused_by_name():
    with pytest.raises(ValueError, match=r"mode='test': must be one of 'simulation', 'production'"):
        EnvClient("http://localhost:8000", mode="test")


def test_neither_a_url_nor_a_provider_is_refused():
    with pytest.raises(ValueError, match="needs a base_url, or a provider"):
        EnvClient()


def test_a_provider_of_ones_own_needs_three_methods():
    class Mine(ContainerProvider):
        def start_container(self, image, port=None, env_vars=None, **kwargs):
            return "http://localhost:1"

        def stop_container(self):
            pass

        def wait_for_ready(self, base_url, timeout_s=30.0):
            pass

    with Mine() as provider:
        assert provider.start_container("x") == "http://localhost:1"
