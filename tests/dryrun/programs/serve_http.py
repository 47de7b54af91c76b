"""A small server of texts with part of OpenAI's interface, over uvicorn: serve_http.py [--silent] [--most TOKENS]. At its end it prints how
many requests it answered, and the longest."""
import argparse
import asyncio
import json
import os
import socket

import torch
import uvicorn

parser = argparse.ArgumentParser()
parser.add_argument("--silent", action="store_true", help="only /ready")
parser.add_argument("--most", type=int, default=4096)
arguments = parser.parse_args()
model = torch.nn.Linear(64, 64, device="cuda")
asked = []


async def answer(send, status, content):
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": json.dumps(content).encode()})


async def read(receive):
    body, more = b"", True
    while more:
        part = await receive()
        body, more = body + part.get("body", b""), part.get("more_body", False)
    return json.loads(body)


async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            kind = (await receive())["type"].split(".")[-1]
            await send({"type": f"lifespan.{kind}.complete"})
            if kind == "shutdown":
                return
    if scope["path"] == "/v1/models" and not arguments.silent:
        return await answer(send, 200, {"data": [{"id": "small", "max_model_len": arguments.most}]})
    if scope["path"] != "/v1/completions" or arguments.silent:
        return await answer(send, 404, {})
    question = await read(receive)
    tokens = len(question["prompt"]) if isinstance(question["prompt"], list) else len(question["prompt"].split())
    if question["model"] != "small" or tokens + question["max_tokens"] > arguments.most:
        return await answer(send, 400, {})
    with torch.no_grad():
        model(torch.empty(tokens, 64, device="cuda"))
    await asyncio.sleep(0.01)
    asked.append(tokens)
    await answer(send, 200, {"choices": [{"text": "word"}]})


with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(application, log_level="warning"))
    print("pid", os.getpid(), flush=True)
    asyncio.run(server.serve(sockets=[free]))
print(f"served {len(asked)}, the longest {max(asked, default=0)}")
