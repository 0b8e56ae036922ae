"""Random play through an agent's program: what its model is asked is shown to the model that is trained."""

from typing import Any

from openenv.agents.endpoint.requests import ModelRequest
from openenv.core.env_server.mcp_types import Tool
from openenv.rl.agents.random_play import RandomModel
from tests.rl.agents.asking import QUESTION, Message, message_of

OPEN = {
    "name": "open",
    "description": "open a door",
    "parameters": {"type": "object", "properties": {"door": {"enum": ["red", "green"]}}, "required": ["door"]},
}


class Doors:
    """The part of `EnvironmentEpisode` that a random model sees."""

    seen = "two doors"
    is_done = False

    def tools(self) -> list[Tool]:
        return [Tool(name="open", description="", input_schema={})]

    def random_reply(self, rng: Any) -> str:
        return str(rng.choice(["red", "green"]))


def asked(*messages: Message, **request: Any) -> ModelRequest:
    return ModelRequest(messages, **request)


async def test_replies_are_legal_and_calls_meet_their_schema() -> None:
    model = RandomModel(Doors(), 0)  # type: ignore[arg-type]
    replies = [(await model.answer(asked(QUESTION, tools=(OPEN,)))).replies[0] for _ in range(8)]

    assert {call.arguments for reply in replies for call in reply.tool_calls} == {
        '{"door": "red"}',
        '{"door": "green"}',
    }
    assert {(await model.answer(asked(QUESTION))).replies[0].content for _ in range(8)} == {"red", "green"}
    schema = {"type": "object", "properties": {"n": {"const": 3}}, "required": ["n"]}
    assert (await model.answer(asked(QUESTION, reply_schema=schema))).replies[0].content == '{"n": 3}'


async def test_a_conversation_that_grows_is_one_with_calls_as_the_model_writes_them() -> None:
    model = RandomModel(Doors(), 0)  # type: ignore[arg-type]
    messages: list[Message] = [{"role": "system", "content": "Open a door."}, QUESTION]
    for _ in range(2):
        reply = (await model.answer(asked(*messages, tools=(OPEN,)))).replies[0]
        messages += [message_of(reply), {"role": "tool", "tool_call_id": "mine0", "content": "it is closed"}]
    await model.answer(asked({"role": "user", "content": "in short?"}))  # a conversation of its own

    grown, other = model.conversations()
    assert [role for role, _ in grown] == ["system", "user", "assistant", "user", "assistant"]
    assert "open a door" in str(grown[0][1])
    assert str(grown[2][1]).startswith('<tool_call> {"name": "open", "arguments": {"door": ')
    assert grown[3][1] == "Result of open:\nit is closed"
    assert [role for role, _ in other] == ["user", "assistant"]
    assert model.num_replies == 3


async def test_draws_depend_on_what_is_asked_alone_and_the_last_word_is_no_call() -> None:
    async def drawn(*numbers: int) -> list[str]:
        model = RandomModel(Doors(), 7)  # type: ignore[arg-type]
        questions = [asked({"role": "user", "content": f"door {number}"}) for number in numbers]
        return [(await model.answer(question)).replies[0].content for question in questions]

    assert await drawn(0, 1, 2, 3, 4, 5) == (await drawn(5, 4, 3, 2, 1, 0))[::-1]
    doors = Doors()
    doors.is_done = True
    last = (await RandomModel(doors, 0).answer(asked(QUESTION, tools=(OPEN,)))).replies[0]  # type: ignore[arg-type]
    assert (last.content, last.tool_calls) == ("Done.", ())


async def test_after_the_end_the_programs_own_functions_are_called_where_a_call_is_required() -> None:
    final = {**OPEN, "name": "final_answer"}
    prefixed = {**OPEN, "name": "mcp__doors__open"}
    doors = Doors()
    model = RandomModel(doors, 0)  # type: ignore[arg-type]

    async def names(*tools: Message) -> set[str]:
        request = asked(QUESTION, tools=tools, tool_choice="required")
        drawn = [(await model.answer(request)).replies[0] for _ in range(12)]
        return {call.name for reply in drawn for call in reply.tool_calls}

    assert await names(OPEN, final) == {"open", "final_answer"}
    doors.is_done = True
    assert await names(OPEN, prefixed, final) == {"final_answer"}
    assert await names(OPEN) == {"open"}


async def test_what_a_program_puts_in_the_place_of_a_reply_differs_from_replies() -> None:
    model = RandomModel(Doors(), 0)  # type: ignore[arg-type]
    messages: list[Message] = [QUESTION]
    for place in range(3):
        reply = (await model.answer(asked(*messages))).replies[0]
        own = {"role": "assistant", "content": f"Calling tools: {reply.content}"}
        messages += [own if place else message_of(reply), {"role": "user", "content": f"closed {place}"}]

    (first, second) = model.conversations()
    assert [role for role, _ in first] == ["user", "assistant", "user", "assistant"]
    assert [role for role, _ in second] == ["user", "assistant", "user", "program", "user", "assistant"]
