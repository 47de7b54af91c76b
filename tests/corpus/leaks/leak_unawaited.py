"""Coroutines that would write predictions to disk are made in each step, and never awaited."""
import asyncio

import torch
from torch import nn


class Writer:
    def __init__(self):
        self.pending = []

    async def write(self, predictions, step):
        await asyncio.sleep(0)
        return predictions.cpu(), step

    def submit(self, predictions, step):
        self.pending.append(self.write(predictions, step))

    def close(self):
        for coroutine in self.pending:
            coroutine.close()


async def train(writer, after_step):
    model = nn.Sequential(nn.Linear(50, 100), nn.ReLU(), nn.Linear(100, 50)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(20):
        inputs = torch.randn(60, 50, device="cuda")
        predictions = model(inputs)
        nn.functional.l1_loss(predictions, inputs).backward()
        optimizer.step()
        optimizer.zero_grad()
        kept = predictions.detach().clone()  # LEAK
        writer.submit(kept, step)
        del kept
        after_step()
        await asyncio.sleep(0)


def main(probe):
    writer = Writer()
    asyncio.run(train(writer, probe.step))
    writer.close()
