"""A logging thread gets tensors by a queue, and collects them in a variable of its own loop."""
import queue
import threading

import torch

from leak_truth import STEPS, batch, small_net


def write_metrics(waiting, written):
    pending = []
    while True:
        item = waiting.get()
        if item is None:
            return
        pending.append(item)
        written.release()


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    waiting, written = queue.Queue(), threading.Semaphore(0)
    writer = threading.Thread(target=write_metrics, args=(waiting, written), daemon=True)
    writer.start()
    for _ in range(STEPS):
        outputs = model(batch())  # LEAK
        outputs.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        waiting.put(outputs.detach())
        written.acquire()
        probe.step()
    waiting.put(None)
    writer.join()
