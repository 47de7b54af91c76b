"""Convolutions, attention, autocast and AdamW, three steps: the peaks, and how many allocations there were."""
import torch

m = torch.nn.Sequential(torch.nn.Conv2d(3, 64, 3), torch.nn.BatchNorm2d(64), torch.nn.ReLU(), torch.nn.Flatten(),
                        torch.nn.Linear(64 * 30 * 30, 100)).cuda()
t = torch.nn.Transformer(128, 4, 2, 2, batch_first=True).cuda()
optimizer = torch.optim.AdamW([*m.parameters(), *t.parameters()])
for _ in range(3):
    with torch.autocast("cuda", dtype=torch.float16):
        y = t(torch.randn(4, 16, 128, device="cuda"), torch.randn(4, 16, 128, device="cuda"))
    (m(torch.randn(64, 3, 32, 32, device="cuda")).sum() + y.float().sum()).backward()
    print(torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved(), torch.cuda.memory_stats()["allocation.all.allocated"],
          flush=True)
    optimizer.step()
    optimizer.zero_grad()
