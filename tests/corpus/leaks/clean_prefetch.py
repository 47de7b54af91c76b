"""A thread that has up to four batches ready on the GPU."""
import queue
import threading

import torch

from leak_truth import STEPS, batch, small_net, train_step


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    ready = queue.Queue(4)

    def produce():
        for _ in range(STEPS + 4):
            ready.put(batch())

    producer = threading.Thread(target=produce)
    producer.start()
    for _ in range(STEPS + 4):
        train_step(model, optimizer, ready.get())
        probe.step()
    producer.join()
