"""Reads the output of another program with asyncio."""

import asyncio


async def output() -> str:
    process = await asyncio.create_subprocess_exec("/bin/echo", "ok", stdout=asyncio.subprocess.PIPE)
    return (await process.communicate())[0].decode().strip()


print(asyncio.run(output()))
