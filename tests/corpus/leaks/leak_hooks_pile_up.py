"""A hook registered in each step and never removed: each closes over the batch that it was made for."""
import torch

from leak_truth import STEPS, batch, small_net, train_step


def watch(layer, reference):
    def compare(module, arguments, output):
        with torch.no_grad():
            module.drift = float((arguments[0] - reference).abs().mean())

    return layer.register_forward_hook(compare)


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        images = batch(128)
        watch(model[0], images.clone())  # LEAK
        train_step(model, optimizer, images)
        probe.step()
