"""The visitors of a server: once it is ready, VRAMTRACE_DRYRUN_REQUESTS requests come in by HTTP, one as long as the server takes, and then
the server ends, as if all had been served. Servers with OpenAI's interface are known; another one waits for whoever asks it."""
import concurrent.futures
import json
import ssl
import threading
import urllib.error
import urllib.request

from . import say, setting

ANSWER, SHORT, LONG = 16, 64, 512  # tokens: of each answer, of most requests, of one if the server does not say how many it takes
SECONDS = 600
# What may be asked, in turn until one works.
INTERFACES = (
    ("/v1/completions", lambda tokens: {"prompt": [5] * tokens, "max_tokens": ANSWER, "ignore_eos": True}),
    ("/v1/completions", lambda tokens: {"prompt": "a " * tokens, "max_tokens": ANSWER}),
    ("/v1/chat/completions", lambda tokens: {"messages": [{"role": "user", "content": "a " * tokens}], "max_tokens": ANSWER}),
    ("/v1/embeddings", lambda tokens: {"input": "a " * tokens}),
    ("/v1/images/generations", lambda tokens: {"prompt": "a " * tokens}),
)


def ask(address, content=None):
    """What the server answers, read as JSON."""
    request = urllib.request.Request(address, content and json.dumps(content).encode(), {"Content-Type": "application/json"})
    with opener.open(request, timeout=SECONDS) as answer:
        return json.load(answer)


# Of its own: the environment's proxies are not for this machine, and certificates are nobody's business here.
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=ssl._create_unverified_context()))


def address_of(server):
    """None: it listens at a path."""
    for each in server.servers:
        for one in each.sockets:
            place = one.getsockname()
            if isinstance(place, tuple):
                host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(place[0], f"[{place[0]}]" if ":" in place[0] else place[0])
                return f"http{'s' if server.config.is_ssl else ''}://{host}:{place[1]}"
    return None


def find_interface(address):
    """(its path, what to ask there, tokens of a short request and of the longest), after a first short one."""
    model = ask(f"{address}/v1/models")["data"][0]
    most = model.get("max_model_len") or LONG + SHORT + ANSWER
    short, problem = min(SHORT, most // 2), None
    for path, content in INTERFACES:
        def named(tokens, content=content):
            return {"model": model["id"], **content(tokens)}
        try:
            ask(address + path, named(short))
            return path, named, short, max(short, most - ANSWER - SHORT)
        except urllib.error.HTTPError as error:
            problem = problem if error.code == 404 and problem else error
    raise problem


def visit(server, count):
    address = address_of(server)
    try:
        path, content, short, longest = find_interface(address)
    except Exception as error:
        say(f"the server is ready at {address}, and answered no request: {error}. Ask it, and end it by Ctrl-C")
        return
    lengths = [longest, *[short] * count][:count - 1]
    with concurrent.futures.ThreadPoolExecutor(max(1, count)) as visitors:
        asked = [visitors.submit(ask, address + path, content(tokens)) for tokens in lengths]
    failed = [one.exception() for one in asked if one.exception()]
    say(f"{count - len(failed)} of {count} requests to {path} were answered"
        f"{f', one of {longest:,} tokens' if asked and not asked[0].exception() else ''}"
        f"{f' ({failed[0]})' if failed else ''}; the server ends")
    server.should_exit = True


def install(module):
    """uvicorn.server"""
    count, own = int(setting("REQUESTS", "12")), module.Server.startup

    async def startup(self, *args, **kwargs):
        await own(self, *args, **kwargs)
        if self.started and getattr(self, "servers", None) and self.config.workers == 1:  # of several, the others go on
            threading.Thread(target=visit, args=(self, count), daemon=True).start()

    if count:
        module.Server.startup = startup
