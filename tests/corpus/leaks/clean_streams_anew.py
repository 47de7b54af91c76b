"""A new stream for each step's copy, of a size that fits what was freed: free memory of other streams does not serve it."""
import torch

from leak_truth import STEPS, batch, small_net, train_step


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        train_step(model, optimizer, batch())
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            packed = torch.empty(30 << 20, dtype=torch.uint8, device="cuda")
        stream.synchronize()
        del packed
        probe.step()
