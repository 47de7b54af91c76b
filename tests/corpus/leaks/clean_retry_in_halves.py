"""A batch that is too large fails and is tried again in halves; of the errors only the last one is kept, without its frames."""
import torch

from leak_truth import STEPS, batch, small_net


class Loop:
    def __init__(self):
        self.model = small_net()
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.last_error = None

    def forward(self, x):
        hidden = self.model(x)
        if len(x) > 32:
            raise MemoryError(f"{len(x)} rows")
        return hidden.square().mean()

    def step(self, x):
        try:
            self.forward(x).backward()
        except MemoryError as error:
            self.last_error = error.with_traceback(None)
            for half in x.chunk(2):
                self.forward(half).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


def main(probe):
    loop = Loop()
    for step in range(STEPS):
        loop.step(batch(rows=64 if step % 2 else 32))
        probe.step()
