"""A program that plays an agent: it answers each line, and calls the tools of the address it was given."""

import asyncio
import sys


async def call(url: str, name: str) -> str:
    """Call a tool over MCP."""
    from fastmcp import Client

    async with Client(url) as client:
        return (await client.call_tool(name, {"path": "notes"})).data


def main() -> None:
    """Answer lines until the input ends."""
    url = sys.argv[1] if len(sys.argv) > 1 else ""
    print("ready", flush=True)
    for line in sys.stdin:
        verb, _, rest = line.strip().partition(" ")
        if verb == "call":
            print(asyncio.run(call(url, rest)), flush=True)
        elif verb == "quit":
            print("bye", file=sys.stderr, flush=True)
            sys.exit(3)
        elif verb != "silence":
            print(f"{verb} {rest}".upper(), flush=True)


if __name__ == "__main__":
    main()
