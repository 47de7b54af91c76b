"""An asyncio service; each request leaves a task that waits for an acknowledgement, with its answer in a variable."""
import asyncio

import torch

from leak_truth import STEPS, batch, small_net


class Service:
    def __init__(self):
        self.model = small_net()
        self.tasks = set()
        self.acknowledged = asyncio.Event()

    async def handle(self, request, done):
        with torch.no_grad():
            answer = self.model(request)  # LEAK
        done.set()
        await self.acknowledged.wait()
        return answer.cpu()


async def serve(probe):
    service = Service()
    for _ in range(STEPS):
        done = asyncio.Event()
        service.tasks.add(asyncio.ensure_future(service.handle(batch(), done)))  # LEAK
        await done.wait()
        probe.step()
    service.acknowledged.set()
    await asyncio.gather(*service.tasks)


def main(probe):
    asyncio.run(serve(probe))
