"""A training of three epochs over a loader of 100 batches, with an evaluation after each; one that begins the loader anew for ever;
one that adds up the gradients of eight batches; or of steps without a loader."""
import sys

import torch

model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(400, 64)), batch_size=4,
                                      num_workers=int(sys.argv[2]) if len(sys.argv) > 2 else 0)


def step(x):
    model(x.cuda()).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


if sys.argv[1] == "loader":
    for epoch in range(3):
        seen = [step(x) for x, in batches]
        print(f"epoch {epoch}: {len(seen)} of {len(batches)} batches")
        with torch.no_grad():
            print("evaluated", sum(model(x.cuda()).isfinite().all().item() for x, in batches))
elif sys.argv[1] == "added":
    for epoch in range(3):
        steps = 0
        for i, (x,) in enumerate(batches):
            model(x.cuda()).square().mean().backward()
            if i % 8 == 7:
                steps += optimizer.step() is None
                optimizer.zero_grad()
        print(f"epoch {epoch}: {i + 1} batches, {steps} steps, {len([model(x.cuda()) for x, in batches])} evaluated")
elif sys.argv[1] == "anew":
    while True:
        for x, in batches:
            step(x)
else:
    for i in range(1000 if sys.argv[1] == "steps" else 1 << 40):
        step(torch.randn(4, 64))
        print(f"step {i}", flush=True)
print("end")
