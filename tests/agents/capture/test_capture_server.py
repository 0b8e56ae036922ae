"""Agents' programs call an engine through the published capture server, and a trainer gets the engine's own tokens."""

import anthropic
import httpx
import openai
import pytest
from openenv.core.harness import TrainingTrace
from openenv.core.harness.capture import CaptureServer, to_trace_entries, to_training_trace, to_turn_records
from openenv.core.harness.capture.export import export_session, summarise
from openenv.core.harness.capture.graph import TurnNode
from openenv.core.harness.capture.server import BUDGET_STOP_MESSAGE
from openenv.core.harness.capture.sessions import SessionRegistry, Upstream

from tests.agents.capture.engine import LOGPROB, CharacterEngine, encoded, text

USER = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}


@pytest.fixture
def engine():
    return CharacterEngine()


@pytest.fixture
def start(engine, serving):
    servers = []

    def start(**options):
        servers.append(CaptureServer(**{"llm_url": serving(engine.app()), "model": "characters", "port": 0, **options}))
        servers[-1].start()
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def server(start):
    return start()


def url(server):
    return f"http://127.0.0.1:{server.port}"


def program(server, session):
    return openai.OpenAI(base_url=f"{url(server)}/v1", api_key=session.session_id, max_retries=0)


def ask(client, *messages, **options):
    return client.chat.completions.create(model="mine", messages=[USER, *messages], **options).choices[0].message


def test_a_conversation_with_a_tool_is_one_sequence_of_the_engines_tokens(engine, server):
    engine.replies = [{"content": None, "tool_calls": [CALL]}, "done"]
    session = server.registry.create(sampling={"temperature": 0.7}, purpose="train", name="mine")
    with program(server, session) as client:
        called = ask(client, tools=[TOOL], temperature=0.1, top_p=0.5)
        result = {"role": "tool", "tool_call_id": "c1", "content": "a door"}
        answer = ask(client, called.model_dump(exclude_none=True), result, tools=[TOOL])
    document = export_session(session)
    trace = to_training_trace(session.graph, document)

    assert (answer.content, server.registry.summary()[0]["name"]) == ("done", "mine")
    assert {(body["temperature"], body["top_p"], body["model"]) for body in engine.bodies} == {(0.7, 1.0, "characters")}
    assert isinstance(trace, TrainingTrace)
    first, second = trace.turns
    assert text(first.completion_token_ids) == "look\n"
    assert (
        second.prompt_token_ids[: len(first.prompt_token_ids) + 5]
        == first.prompt_token_ids + first.completion_token_ids
    )
    assert set(second.per_token_logps) == {LOGPROB}
    assert sum(second.loss_mask) == len("done\n")
    assert second.metadata["requested_sampling_params"] == {}
    assert first.metadata["requested_sampling_params"] == {"temperature": 0.1, "top_p": 0.5}
    assert first.metadata["sampling_params"]["temperature"] == 0.7
    (row,) = document["sequences"]
    assert (row["role"], row["turn_lengths"], document["trainable"]) == ("agent", [5, 5], True)
    assert "agent: 2 calls" in summarise(document)
    assert to_turn_records(session.graph, document)[1][0] == second.prompt_token_ids
    assert to_trace_entries(session.graph, document)[1]["request"]["messages"][-1]["content"] == "a door"


async def test_the_other_apis_are_captured_as_the_same_calls(engine, server):
    session = server.registry.create(sampling={"temperature": 1.0})
    async with anthropic.AsyncAnthropic(base_url=url(server), api_key=session.session_id) as client:
        await client.messages.create(model="mine", max_tokens=9, messages=[USER])
    async with openai.AsyncOpenAI(base_url=f"{url(server)}/v1", api_key=session.session_id) as client:
        await client.responses.create(model="mine", input="hi")
        async with client.chat.completions.stream(model="mine", messages=[USER]) as stream:
            assert (await stream.get_final_completion()).choices[0].message.content == "ok"

    prompts = {text(node.prompt_ids) for node in session.graph.nodes()}
    assert (len(session.graph.nodes()), prompts) == (3, {"user:hi\nassistant:"})


def test_calls_without_tools_beside_an_agents_are_not_its_own(engine, server):
    session = server.registry.create()
    with program(server, session) as client:
        ask(client, tools=[TOOL])
        client.chat.completions.create(model="mine", messages=[{"role": "user", "content": "Give it a title"}])
    document = export_session(session)

    assert [row["role"] for row in document["sequences"]] == ["agent", "auxiliary"]
    assert len(to_training_trace(session.graph, document).turns) == 1


def test_a_limit_of_calls_ends_a_program_without_the_model(engine, start):
    server = start(max_model_calls=1)
    session = server.registry.create()
    with program(server, session) as client:
        assert [ask(client).content for _ in range(3)] == ["ok", BUDGET_STOP_MESSAGE, BUDGET_STOP_MESSAGE]

    assert (len(engine.bodies), session.budget_stop_count, len(session.graph.nodes())) == (1, 2, 1)


def test_a_reply_has_at_most_the_tokens_of_the_server_and_of_its_session(engine, start):
    server = start(max_output_tokens=50)
    with program(server, server.registry.create(max_output_tokens=20)) as client:
        ask(client, max_tokens=100)
        ask(client, max_tokens=10)
    with program(server, server.registry.create()) as client:
        ask(client)

    assert [body["max_tokens"] for body in engine.bodies] == [20, 10, 50]


def test_without_a_policy_of_training_the_temperature_is_the_programs_and_the_rest_the_whole_distribution(
    engine, server
):
    session = server.registry.create()
    with program(server, session) as client:
        ask(client, temperature=0.1, top_p=0.5)

    assert (engine.bodies[0]["temperature"], engine.bodies[0]["top_p"]) == (0.1, 1.0)
    assert session.metadata["sampling_overridden"] == {"top_p": 0.5}
    assert session.graph.nodes()[0].sampling_params == {"temperature": 0.1, "top_p": 1.0}


@pytest.mark.parametrize(
    "options", [{"n": 2}, {"tools": [TOOL], "tool_choice": "required"}, {"response_format": {"type": "json_object"}}]
)
def test_what_cannot_be_trained_is_refused(engine, server, options):
    with (
        program(server, server.registry.create(sampling={"temperature": 1.0})) as client,
        pytest.raises(openai.BadRequestError),
    ):
        ask(client, **options)

    assert engine.bodies == []


def test_a_failure_of_the_engine_reaches_the_program_and_is_counted(engine, server):
    engine.replies = [400, "ok"]
    session = server.registry.create(sampling={"temperature": 1.0})
    with program(server, session) as client:
        with pytest.raises(openai.BadRequestError, match="the prompt is too long"):
            ask(client)
        ask(client)
    document = export_session(session)

    assert session.upstream_errors == 1
    assert any("call_lost: call 1" in finding for finding in document["validation"])
    assert len(to_training_trace(session.graph, document).turns) == 1


def test_an_engine_without_tokens_is_one_of_evaluations(engine, start):
    engine.returns_tokens = False
    server = start(capture_level="text")
    session = server.registry.create(purpose="eval", eval_sampling={"temperature": 0.0})
    with program(server, session) as client:
        answer = ask(client, top_p=0.5)
        ask(client, answer.model_dump(exclude_none=True), USER)
    document = export_session(session, capture_level="text")

    assert {(body["temperature"], "logprobs" in body) for body in engine.bodies} == {(0.0, False)}
    assert (document["rollout_type"], document["trainable"], document["stats"]["n_roots"]) == ("eval", False, 1)
    with pytest.raises(ValueError, match="one of an evaluation"):
        to_training_trace(session.graph, document)
    training = server.registry.create(sampling={"temperature": 1.0})
    with program(server, training) as client, pytest.raises(openai.BadRequestError, match="tokens"):
        ask(client)


def test_an_engine_that_was_to_return_tokens_and_does_not_is_never_trained(engine, server):
    engine.returns_tokens = False
    session = server.registry.create()
    with program(server, session) as client:
        ask(client)

    with pytest.raises(ValueError, match=r"no_prompt_ids"):
        to_training_trace(session.graph, export_session(session))


def test_sessions_are_begun_read_and_ended_over_http_with_the_admin_key(engine, start, serving):
    server = start(admin_key="secret")
    sessions, admin = f"{url(server)}/sessions", {"authorization": "Bearer secret"}
    with httpx.Client(headers=admin) as http:
        assert httpx.post(sessions, json={}).status_code == 401
        found = http.post(sessions, json={"sampling": {"temperature": 1.0}, "purpose": "train", "metadata": {"a": 1}})
        session = server.registry.get(found.json()["session_id"])
        with program(server, session) as client:
            ask(client)
        rollout = http.get(f"{sessions}/{session.session_id}/rollout", params={"include_messages": True}).json()
        assert (rollout["trainable"], rollout["metadata"]) == (True, {"a": 1})
        assert rollout["turns"][0]["request_messages"] == [USER]
        assert http.delete(f"{sessions}/{session.session_id}").json() == {"deleted": True}
        with program(server, session) as client, pytest.raises(openai.AuthenticationError):
            ask(client)
        assert http.get(f"{sessions}/{session.session_id}/rollout").status_code == 404
        refused = http.post(sessions, json={"sampling": {"temperature": 0}})
        assert (refused.status_code, refused.json()["detail"]) == (
            400,
            "sampling.temperature=0: must be a number above 0",
        )


@pytest.mark.parametrize(("returns_tokens", "level"), [(True, "tokens"), (False, "text")])
def test_a_session_may_name_an_engine_which_is_asked_for_what_it_returns(start, serving, returns_tokens, level):
    server, other = start(llm_url=""), CharacterEngine(returns_tokens=returns_tokens)
    given = {"llm_url": serving(other.app())}
    found = httpx.post(f"{url(server)}/sessions", json=given).json()
    assert (found["capture_level"], found["rollout_type"]) == (level, "train" if returns_tokens else "eval")
    with program(server, server.registry.get(found["session_id"])) as client:
        ask(client)
    with program(server, server.registry.create(upstream=Upstream(**given))) as client:
        ask(client)

    assert [body["model"] for body in other.bodies] == ["characters"] * 3  # it was asked once what it returns
    assert server.app.state.upstreams.known() == [{**given, "model": "characters", "capture_level": level}]


def test_the_key_of_a_session_that_was_ended_before_its_first_call_is_refused(engine, server):
    session = server.registry.create()
    assert server.registry.delete(session.session_id)
    with program(server, session) as client, pytest.raises(openai.AuthenticationError):
        ask(client)

    assert engine.bodies == []


def test_a_call_without_log_probabilities_is_no_part_of_a_trace_that_leaves_it_out():
    session = SessionRegistry().create()
    session.graph.add_turn(TurnNode("a", [1], [2], [-0.5]))
    session.graph.add_turn(TurnNode("b", [1, 2, 3], [4], None))
    document = export_session(session)

    with pytest.raises(ValueError, match="missing: call 1"):
        to_training_trace(session.graph, document)
    assert [entry["metadata"]["node_id"] for entry in to_trace_entries(session.graph, document)] == ["a"]


def test_an_open_server_begins_a_session_for_each_key():
    registry = SessionRegistry(require_registered=False)

    session = registry.resolve({"X-Api-Key": "mine"}, {})
    assert registry.resolve({"Authorization": "bearer mine"}, {}) is session
    assert SessionRegistry().resolve({"X-Api-Key": "mine"}, {}) is None


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"max_model_calls": -1}, "max_model_calls=-1"),
        ({"purpose": "play"}, "purpose='play'"),
        ({"purpose": "train", "capture_level": "text"}, "purpose='train' needs an engine that returns tokens"),
        ({"purpose": "eval", "sampling": {"temperature": 1.0}}, "sampling is for training"),
        ({"eval_sampling": {"temperature": 1.0}}, "eval_sampling with purpose='auto'"),
        ({"purpose": "eval", "eval_sampling": {"top_p": 0}}, r"eval_sampling\.top_p=0: must be above 0"),
        ({"purpose": "eval", "eval_sampling": {"min_p": 0}}, r"eval_sampling\.min_p is not known"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings, problem):
    with pytest.raises(ValueError, match=problem):
        SessionRegistry().create(**settings)


def test_a_second_server_does_not_take_a_port(server, start):
    with pytest.raises(OSError, match="in use"):
        start(port=server.port)


def test_the_tokens_are_those_of_the_messages():
    assert text(encoded(USER)) == "user:hi\n"
