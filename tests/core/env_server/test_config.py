"""ServerConfig: its limits, and the former names of fields."""

import math

import pytest

from openenv.core.env_server import ServerConfig


@pytest.mark.parametrize(
    ("former", "name", "value"),
    [("max_waiting", "max_queue", 3), ("max_wait_s", "queue_timeout_s", 2.5), ("grace_s", "reconnect_grace_s", 0.5)],
)
def test_a_former_name_sets_the_field_and_warns_with_its_name_of_now(former, name, value):
    with pytest.warns(DeprecationWarning, match=rf"{former}=\.\.\.\) is called {name} now"):
        config = ServerConfig(**{former: value})
    assert getattr(config, name) == value


def test_a_field_under_both_names_is_refused():
    with pytest.warns(DeprecationWarning, match="max_queue"), pytest.raises(TypeError, match="give max_queue alone"):
        ServerConfig(max_waiting=1, max_queue=2)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"max_sessions": 0}, "max_sessions=0: give 1 or more"),
        ({"max_queue": -1}, r"max_queue=-1: give 0 \(no queue\) or more"),
        ({"queue_timeout_s": 0}, "queue_timeout_s=0: give a time above 0 seconds"),
        ({"reconnect_grace_s": -1}, "reconnect_grace_s=-1: give 0"),
        pytest.param(
            {"token": ""},
            "token='': an empty token guards nothing",
            marks=pytest.mark.finding("an empty token is refused"),
        ),
        pytest.param(
            {"token": " "},
            "token=' ': an empty token guards nothing",
            marks=pytest.mark.finding("an empty token is refused"),
        ),
        ({"max_envs_per_session": 0}, "max_envs_per_session=0: give 1 or more"),
        ({"idle_timeout_s": math.nan}, "idle_timeout_s=nan: give a time above 0 seconds"),
        ({"reconnect_grace_s": math.nan}, "reconnect_grace_s=nan: give 0"),
        ({"max_sessions": math.nan}, "max_sessions=nan: give 1 or more"),
        ({"drain_timeout_s": -1}, "drain_timeout_s=-1: give 0"),
        ({"replica": "Echo.1"}, "replica='Echo.1': use lower-case letters, digits and hyphens"),
        ({"execution": "gpu"}, "execution='gpu': give inline, thread, process, or None"),
    ],
)
def test_an_invalid_limit_is_refused_with_the_remedy(limits, words):
    with pytest.raises(ValueError, match=words):
        ServerConfig(**limits)


@pytest.mark.finding("recordings and tokens are kept from others")
def test_the_text_of_a_configuration_leaves_the_token_out():
    assert "s3cret" not in repr(ServerConfig(token="s3cret"))
