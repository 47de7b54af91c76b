"""A thread for each request, several at a time, as http.server does it; the sessions are never closed."""
import threading
from dataclasses import dataclass, field

import torch

from leak_truth import STEPS, small_net

NET, SESSIONS, LOCK = None, {}, threading.Lock()
TOGETHER = threading.Barrier(3)  # else a workspace for the third at a time may be made in any round


@dataclass
class Session:
    user: str
    turns: list = field(default_factory=list)


def handle(user):
    prompt = torch.randn(8, 256).to("cuda")
    with torch.no_grad():
        hidden = NET(prompt)
        TOGETHER.wait()
        state = torch.tanh(hidden)  # LEAK
    with LOCK:
        SESSIONS.setdefault(user, Session(user)).turns.append(state)


def warm(together):
    with torch.no_grad():
        NET(torch.randn(8, 256).to("cuda"))
    together.wait()


def main(probe):
    global NET
    NET = small_net()
    # A thread gives its workspace back a little after join(): the next three may find none. Six are enough.
    together = threading.Barrier(6)
    first = [threading.Thread(target=warm, args=(together,)) for _ in range(6)]
    for thread in first:
        thread.start()
    for thread in first:
        thread.join()
    for round_number in range(STEPS):
        threads = [threading.Thread(target=handle, args=(f"user{round_number}.{i}",)) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        probe.step()
    # three requests are between two samples
    probe.samples = [sample / 3 for sample in probe.samples]
