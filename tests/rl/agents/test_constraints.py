"""What limits the replies that an agent's program receives: calls that it asks for, and JSON of its schema."""

import json

import pytest

from openenv.agents.endpoint.requests import RequestRefused
from openenv.rl.agents.model import TokenLimits
from tests.rl.agents.asking import QUESTION, TOOL, WRITES_BYTES, message_of, player

OPEN = {
    "name": "open",
    "description": "open a door",
    "parameters": {
        "type": "object",
        "properties": {"door": {"enum": ["red", "green"]}},
        "required": ["door"],
    },
}
LOOK = {"name": "look", "description": "look", "parameters": {"type": "object", "properties": {}}}
TOOLS = (OPEN, LOOK)
ROOM = TokenLimits(3000, 80)


async def test_a_call_that_is_required_is_made_and_trained_as_it_was_drawn() -> None:
    async with player(WRITES_BYTES, limits=ROOM) as asking:
        messages, names = [QUESTION], set()
        for number in range(8):
            (call,) = (reply := await asking.ask(messages, tools=TOOLS, tool_choice="required")).tool_calls
            names.add(call.name)
            arguments = json.loads(call.arguments)
            assert arguments == {} if call.name == "look" else arguments["door"] in ("red", "green")
            messages += [message_of(reply), {"role": "tool", "tool_call_id": "mine0", "content": str(number)}]

        assert names == {"open", "look"}
        (segment,) = asking.require_exact()
        assert len(segment.replies) == 8


async def test_a_named_function_is_the_one_that_is_called() -> None:
    async with player(WRITES_BYTES, limits=ROOM) as asking:
        for _ in range(4):
            reply = await asking.ask([QUESTION], tools=TOOLS, tool_choice="required", named_tool="open")
            assert [call.name for call in reply.tool_calls] == ["open"]


async def test_a_run_may_require_calls_until_the_episode_has_ended() -> None:
    has_ended = False
    async with player(WRITES_BYTES, limits=ROOM, has_ended=lambda: has_ended, must_call=True) as asking:
        assert (await asking.ask([QUESTION], tools=TOOLS)).tool_calls
        assert not (await asking.ask([QUESTION])).tool_calls
        assert not (await asking.ask([QUESTION], tools=TOOLS, tool_choice="none")).tool_calls
        has_ended = True
        free = await asking.ask([QUESTION], tools=TOOLS)
        assert not free.tool_calls  # the model has random weights, which write no call by themselves


async def test_json_and_calls_are_both_open_where_the_program_leaves_it_to_the_model() -> None:
    fields = {"n": {"enum": [1, 2]}}
    answer = {"type": "object", "properties": fields, "required": ["n"], "additionalProperties": False}
    async with player(WRITES_BYTES, limits=ROOM) as asking:
        replies = [
            await asking.ask([{"role": "user", "content": f"once {number}"}], tools=TOOLS, reply_schema=answer)
            for number in range(12)
        ]
        assert any(reply.tool_calls for reply in replies)
        written = [json.loads(reply.content) for reply in replies if not reply.tool_calls]
        assert written
        assert all(one["n"] in (1, 2) for one in written)
        asking.require_exact()


async def test_functions_whose_calls_cannot_be_written_are_refused_where_a_call_is_required() -> None:
    broken = {**TOOL, "parameters": {"type": "object", "properties": {"seat": {"type": "nonsense"}}}}
    async with player(WRITES_BYTES, limits=ROOM) as asking:
        with pytest.raises(RequestRefused, match="the JSON schema of the reply: ") as refusal:
            await asking.ask([QUESTION], tools=(broken,), tool_choice="required")
        assert refusal.value.field_name == "tools"
        await asking.ask([QUESTION], tools=(broken,))
