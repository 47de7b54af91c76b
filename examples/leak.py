"""The classic leak: `total_loss += loss` keeps the graph of every step alive.

    vramtrace run examples/leak.py
"""
import torch
from torch import nn


def main(steps=20):
    model = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1024)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    total_loss = 0
    for _ in range(steps):
        batch = torch.randn(256, 1024).cuda()
        loss = (model(batch) - batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total_loss += loss + model(batch).mean()  # keeps the second forward's graph: use .item() or .detach()
    print(f"total loss {total_loss:.3f} over {steps} steps")


if __name__ == "__main__":
    main()
