"""Three models are evaluated one after the other on the same batches; of the last the features are kept, for a plot."""
import torch
from torch import nn

from leak_truth import STEPS, batch


def main(probe):
    probe.measure(first=2 * STEPS + 4, seen_at=3 * STEPS - 2)
    models = [nn.Sequential(nn.Linear(256, width), nn.ReLU(), nn.Linear(width, 64)).cuda().eval() for width in (128, 256, 384)]
    features = []
    with torch.inference_mode():
        for model in models:
            for _ in range(STEPS):
                hidden = model[1](model[0](batch()))  # LEAK
                model[2](hidden).sum().item()
                if model is models[-1]:
                    features.append(hidden)
                probe.step()
