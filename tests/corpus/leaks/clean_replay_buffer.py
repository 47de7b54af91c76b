"""The last ten batches, in a deque that is full after ten steps."""
import collections

import torch

from leak_truth import STEPS, batch, small_net, train_step


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    buffer = collections.deque(maxlen=10)
    for _ in range(STEPS + 6):
        buffer.append(batch())
        train_step(model, optimizer, buffer[len(buffer) // 2])
        probe.step()
