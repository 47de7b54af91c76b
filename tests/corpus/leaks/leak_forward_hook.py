"""A forward hook that copies what it sees."""
import torch

from leak_truth import STEPS, batch, small_net, train_step


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    seen = []

    def watch(module, inputs, output):
        seen.append(output.detach().clone())  # LEAK

    model[1].register_forward_hook(watch)
    for _ in range(STEPS):
        train_step(model, optimizer, batch())
        probe.step()
