"""The loader of a training loop brings each batch to the GPU, and the loop keeps them: nothing of the one that fails is there."""
import torch
from torch import nn

from oom_truth import watch


def collate(rows):
    return torch.stack(rows).cuda()  # asks


model = nn.Linear(1 << 16, 16).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
rows = torch.empty(512, 1 << 16)
watch()
kept = []
for inputs in torch.utils.data.DataLoader([rows] * 20, batch_size=2, collate_fn=collate):
    model(inputs).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    kept.append(inputs)
