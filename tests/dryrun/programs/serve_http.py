"""A small server of texts with part of OpenAI's interface, over uvicorn: serve_http.py [--silent] [--most TOKENS] [--path PATH]
[--texts]. At its end it prints how many requests it answered, and the longest."""
import argparse
import asyncio
import json
import os
import socket

import torch
import uvicorn

parser = argparse.ArgumentParser()
parser.add_argument("--silent", action="store_true", help="without any interface")
parser.add_argument("--most", type=int, default=4096)
parser.add_argument("--path", default="/v1/completions", help="what it answers")
parser.add_argument("--texts", action="store_true", help="no lists of tokens")
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


def tokens_of(question):
    """Of the prompt, of the messages or of the input; None: it is not understood."""
    asked_for = question.get("prompt") or question.get("input") or question.get("messages")
    if isinstance(asked_for, str):
        return len(asked_for.split())
    if isinstance(asked_for[0], int):
        return None if arguments.texts else len(asked_for)
    return sum(len(message["content"].split()) for message in asked_for)


async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            kind = (await receive())["type"].split(".")[-1]
            await send({"type": f"lifespan.{kind}.complete"})
            if kind == "shutdown":
                return
    if scope["path"] == "/v1/models" and not arguments.silent:
        return await answer(send, 200, {"data": [{"id": "small", "max_model_len": arguments.most}]})
    if scope["path"] != arguments.path or arguments.silent:
        return await answer(send, 404, {})
    question = await read(receive)
    tokens = tokens_of(question)
    if question["model"] != "small" or not tokens or tokens + question.get("max_tokens", 0) > arguments.most:
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
