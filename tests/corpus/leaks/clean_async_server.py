"""An asyncio service whose requests overlap; a semaphore bounds them, and answers leave as numbers."""
import asyncio

import torch

from leak_truth import STEPS, small_net


async def request(net, gate, rows):
    async with gate:
        x = torch.randn(rows, 256, device="cuda")
        for _ in range(3):
            x = x + net(x)
            await asyncio.sleep(0)
        return x.mean().item()


async def serve(probe):
    net, gate = small_net(out=256), asyncio.Semaphore(3)
    with torch.no_grad():
        for number in range(STEPS):
            await asyncio.gather(*(request(net, gate, 16 + number % 5) for _ in range(5)))
            probe.step()


def main(probe):
    asyncio.run(serve(probe))
