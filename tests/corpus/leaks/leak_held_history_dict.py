"""A history in the manner of Keras: a dict of lists. One of them gets tensors."""
import torch

from leak_truth import STEPS, batch, small_net


def train_epoch(model, optimizer, history, probe):
    for _ in range(STEPS):
        outputs = model(batch())  # LEAK
        loss = outputs.square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        history["loss"].append(loss.item())
        history["outputs"].append(outputs.detach())
        probe.step()


def main(probe):
    model = small_net()
    history = {"loss": [], "outputs": [], "accuracy": []}
    train_epoch(model, torch.optim.AdamW(model.parameters()), history, probe)
