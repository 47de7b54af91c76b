"""Finished tasks are kept in a set, with what they returned."""
import asyncio

import torch

from leak_truth import STEPS, small_net


def main(probe):
    model = small_net().eval()
    background = set()

    async def infer(x):
        with torch.inference_mode():
            await asyncio.sleep(0)
            return model(x)  # LEAK

    async def serve():
        for _ in range(STEPS):
            task = asyncio.create_task(infer(torch.zeros(96, 256).cuda()))
            background.add(task)
            await task
            probe.step()

    asyncio.run(serve())
