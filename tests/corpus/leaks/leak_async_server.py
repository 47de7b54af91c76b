"""An asyncio service: requests wait for each other in one thread; the trace of each is appended to a log in memory."""
import asyncio

import torch

from leak_truth import STEPS, small_net


class Service:
    def __init__(self):
        self.encoder = small_net(out=128)
        self.audit = []

    async def embed(self, number):
        text = torch.randn(32, 256, device="cuda")
        await asyncio.sleep(0)
        vector = self.encoder(text)
        await asyncio.sleep(0)
        norm = vector / vector.norm(dim=-1, keepdim=True)  # LEAK
        self.audit.append({"request": number, "answer": norm})
        return norm.shape


async def serve(probe):
    service = Service()
    with torch.no_grad():
        for number in range(STEPS):
            await asyncio.gather(service.embed(2 * number), service.embed(2 * number + 1))
            probe.step()
    probe.samples = [sample / 2 for sample in probe.samples]  # two requests are between two samples


def main(probe):
    asyncio.run(serve(probe))
