"""An episode of each environment with its own client, synchronous and asynchronous."""

from importlib import import_module
from typing import Any

CHARACTERS = "clerk_env.server.tokens"


def stairs(url: str) -> list[Any]:
    package = import_module("stairs_env")
    with package.StairsEnv(base_url=url).sync() as env:
        first = env.reset()
        results = [env.step(package.StairsAction(steps=steps)) for steps in (3, -1, 3)]
        state = env.state()
    last = results[-1].observation
    assert (first.observation.height, first.reward, first.done) == (0, 0.0, False)
    assert (last.visited, last.notes) == ([0, 3, 2, 5], {"goal": 5})
    assert (type(state), state.step_count) == (package.StairsState, 3)
    return [result.reward for result in results]


async def stairs_async(url: str) -> list[Any]:
    package = import_module("stairs_env")
    async with package.StairsEnv(base_url=url) as env:
        await env.reset()
        results = [await env.step(package.StairsAction(steps=steps)) for steps in (3, -1, 3)]
        assert (await env.state()).step_count == 3
    return [result.reward for result in results]


def notes(url: str) -> list[Any]:
    package = import_module("notes_env")
    from openenv.core.env_server.mcp_types import CallToolAction, ListToolsAction

    with package.NotesEnv(base_url=url).sync() as env:
        env.reset()
        assert [tool.name for tool in env.list_tools()] == ["write_note", "submit"]
        assert env.call_tool("write_note", text="done") == {"count": 1, "text": "done"}
        listed = env.step(ListToolsAction())
        last = env.step(CallToolAction(tool_name="submit", arguments={}))
        assert env.state().step_count == 2
        refused = env.reset(key="")
        still_listed = env.step(ListToolsAction())
    assert (refused.done, len(still_listed.observation.tools)) == (True, 2)
    assert (last.observation.result["data"], last.done) == ("submitted", True)
    return [listed.reward, last.reward]


async def notes_async(url: str) -> list[Any]:
    package = import_module("notes_env")
    from openenv.core.env_server.mcp_types import CallToolAction, ListToolsAction

    async with package.NotesEnv(base_url=url) as env:
        await env.reset()
        assert await env.call_tool("write_note", text="done") == {"count": 1, "text": "done"}
        listed = await env.step(ListToolsAction())
        last = await env.step(CallToolAction(tool_name="submit", arguments={}))
    return [listed.reward, last.reward]


def drill(url: str) -> list[Any]:
    package = import_module("drill_env")
    with package.DrillEnv(url, timeout=30).sync() as env:
        env.reset(seed=3)
        results = [env.step(package.DrillAction(code=code)) for code in ("1 / 0", "import math\nprint(6 * 7)")]
        assert env.state().last_exit_code == 0
    assert "ZeroDivisionError" in results[0].observation.stderr
    assert results[1].observation.stdout.strip() == "42"
    assert results[1].done
    return [result.reward for result in results]


async def drill_async(url: str) -> list[Any]:
    package = import_module("drill_env")
    async with package.DrillEnv(url) as env:
        await env.reset(seed=3)
        results = [await env.step(package.DrillAction(code=code)) for code in ("1 / 0", "import math\nprint(6 * 7)")]
    return [result.reward for result in results]


def clerk(url: str) -> list[Any]:
    package, characters = import_module("clerk_env"), import_module(CHARACTERS).Characters()
    with package.ClerkEnv(base_url=url).sync() as env:
        first = env.reset()
        turn = env.message_to_action({"role": "user", "content": "thanks"}, characters)
        last = env.step(turn)
        state = env.state()
    assert first.observation.messages == [{"role": "system", "content": "Serve."}]
    assert characters.decode(last.observation.tokens) == "system: Serve.\nuser: thanks\n"
    assert state.history_tokens[1] == turn.tokens
    return [first.reward, last.reward]


async def clerk_async(url: str) -> list[Any]:
    package, characters = import_module("clerk_env"), import_module(CHARACTERS).Characters()
    async with package.ClerkEnv(base_url=url) as env:
        first = await env.reset()
        last = await env.step(env.message_to_action({"role": "user", "content": "thanks"}, characters))
    return [first.reward, last.reward]


def relic(url: str) -> list[Any]:
    package = import_module("relic_env")
    env = package.RelicEnv(base_url=url)
    env.reset()
    results = [env.step(package.RelicAction(number=number)) for number in (4, 6)]
    state = env.state()
    env.close()
    assert (results[-1].observation.total, results[-1].observation.history) == (10, [4, 6])
    assert (state.episode_id, state.step_count) == ("relic", 2)
    return [result.reward for result in results]


async def relic_async(url: str) -> list[Any]:
    package = import_module("relic_env")
    async with package.RelicEnv(base_url=url) as env:
        await env.reset()
        results = [await env.step(package.RelicAction(number=number)) for number in (4, 6)]
    return [result.reward for result in results]


def beacon(url: str) -> list[Any]:
    package = import_module("beacon_env")
    with package.BeaconEnv(base_url=url).sync() as env:
        first = env.reset(lamp="new", episode_id="night")
        results = [env.step(package.BeaconAction(colour=colour)) for colour in ("GREEN", "RED", "GREEN")]
        state = env.state()
    assert first.observation.result == "lit by the new lamp"
    assert [flash.colour for flash in results[-1].observation.flashes][1] is package.Colour.RED
    assert (state.episode_id, state.flashes_left, state.lamp) == ("night", 0, "new")
    return [result.reward for result in results]


async def beacon_async(url: str) -> list[Any]:
    package = import_module("beacon_env")
    async with package.BeaconEnv(base_url=url) as env:
        await env.reset()
        results = [await env.flash(package.Colour[colour]) for colour in ("GREEN", "RED", "GREEN")]
    return [result.reward for result in results]


def ledger(url: str) -> list[Any]:
    package = import_module("ledger_env")
    with package.LedgerEnv(base_url=url).sync() as env:
        env.reset()
        results = [env.step(package.Pay(amount=10)), env.step(package.Read())]
    assert [result.observation.metadata["sent"] for result in results] == [
        ["metadata", "receipt"], ["balance", "metadata"]
    ]  # fmt: skip
    assert results[-1].observation.balance == 10
    return [result.reward for result in results]


async def ledger_async(url: str) -> list[Any]:
    package = import_module("ledger_env")
    async with package.LedgerEnv(base_url=url) as env:
        await env.reset()
        results = [await env.step(package.Pay(amount=10)), await env.step(package.Read())]
    return [result.reward for result in results]
