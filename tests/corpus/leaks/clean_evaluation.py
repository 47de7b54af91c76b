"""Evaluation every fourth step; the best weights and the last predictions are replaced."""
import torch

from leak_truth import STEPS, batch, small_net, train_step


@torch.no_grad()
def evaluate(model):
    model.eval()
    predictions = torch.cat([model(batch()) for _ in range(3)])
    model.train()
    return predictions


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    best = predictions = None
    for step in range(STEPS + 7):
        train_step(model, optimizer, batch())
        if step % 4 == 3:
            predictions = evaluate(model)
            best = {name: value.clone() for name, value in model.state_dict().items()}
        probe.step()
    assert best and predictions is not None
