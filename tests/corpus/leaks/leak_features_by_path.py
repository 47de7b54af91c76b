"""Features of a frozen network are kept by the file's name, so that they are computed once; each file comes once."""
import torch
from torch import nn

from leak_truth import STEPS, batch, small_net


class CachedExtractor:
    def __init__(self):
        self.backbone = small_net(out=512).eval().requires_grad_(False)
        self._cache = {}

    def __call__(self, paths, images):
        missing = [i for i, path in enumerate(paths) if path not in self._cache]
        if missing:
            with torch.no_grad():
                features = self.backbone(images[missing])
            for i, feature in zip(missing, features):
                self._cache[paths[i]] = feature.clone()  # LEAK
        return torch.stack([self._cache[path] for path in paths])


def main(probe):
    extractor, head = CachedExtractor(), nn.Linear(512, 10).cuda()
    optimizer = torch.optim.Adam(head.parameters())
    for step in range(STEPS):
        features = extractor([f"images/{step:03}/{i}.jpg" for i in range(16)], batch(rows=16))
        loss = head(features).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        probe.step()
