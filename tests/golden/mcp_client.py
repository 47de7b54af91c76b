"""Run by the interpreter of VRAMTRACE_READERS: the MCP SDK's client calls a server's tools.

    mcp_client.py SERVER ARGUMENT... < calls.json > answers.json

calls: a list of [tool, arguments] or ["list"], or ["pause", file]: touches the file and waits until it is gone. Answers: what
the server said at first, then an object for each call."""
import asyncio
import json
import os
import pathlib
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def answer(session, call):
    if call[0] == "list":
        return [tool.model_dump(mode="json", by_alias=True) for tool in (await session.list_tools()).tools]
    if call[0] == "ping":
        return (await session.send_ping()).model_dump(mode="json")
    if call[0] == "pause":
        path = pathlib.Path(call[1])
        path.touch()
        while path.exists():
            await asyncio.sleep(0.02)
        return {}
    try:
        result = await session.call_tool(*call)
    except Exception as error:  # an error of the protocol, not of the tool
        return {"protocol_error": str(error)}
    return {"text": "\n".join(part.text for part in result.content), "failed": bool(result.is_error),
            "data": result.structured_content}


async def main():
    server = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:], env=dict(os.environ))
    async with stdio_client(server) as (reading, writing):
        async with ClientSession(reading, writing) as session:
            answers = [(await session.initialize()).model_dump(mode="json", by_alias=True)]
            for call in json.load(sys.stdin):
                answers.append(await answer(session, call))
    json.dump(answers, sys.stdout)


asyncio.run(main())
