"""Results that depend on values, on a device: a line of JSON."""
import json
import sys

import torch

d = sys.argv[1]
x = torch.arange(10, device=d)
even = x % 2 == 0
y = x.clone()
y[even] = -1
t = torch.tensor
linear = torch.nn.Linear(4, 3).to(d)
with torch.no_grad():
    linear.weight.copy_(torch.arange(12.0).view(3, 4))
    linear.bias.zero_()
linear(torch.ones(2, 4, device=d)).square().sum().backward()
before = linear.weight.sum().item()
torch.optim.SGD(linear.parameters(), lr=0.5, foreach=False).step()
logits = torch.linspace(0, 1, 32, device=d).view(4, 8)
loss = torch.nn.functional.cross_entropy(logits, t([1, 7, 3, 0], device=d))
half = torch.linspace(-2, 2, 16, device=d, dtype=torch.bfloat16)
torch.manual_seed(5)
order = torch.randperm(6).tolist()  # of the CPU's generator, which must go on as if nothing was computed
noise = torch.rand(100, device=d, generator=torch.Generator(d))
results = {
    "arange": x.tolist(), "mask": even.tolist(), "sum": even.sum().item(), "any": bool(even.any()), "all": bool(even.all()),
    "nonzero": even.nonzero().flatten().tolist(), "index": x[even].tolist(), "masked_select": torch.masked_select(x, even).tolist(),
    "where": torch.where(even)[0].tolist(), "put": y.tolist(),
    "unique": [part.tolist() for part in torch.unique(t([3, 1, 3, 2], device=d), return_counts=True)],
    "bincount": torch.bincount(t([0, 2, 2], device=d)).tolist(),
    "repeat": torch.repeat_interleave(t([1, 2], device=d), t([2, 3], device=d)).tolist(),
    "argmax": t([1.0, 5, 2], device=d).argmax().item(), "cumsum": torch.ones(4, device=d).cumsum(0).tolist(),
    "topk": t([1.0, 5, 2], device=d).topk(2)[1].tolist(), "sort": t([3, 1, 2], device=d).sort()[0].tolist(),
    "nan": torch.isnan(t(float("nan"), device=d)).item(), "equal": torch.equal(x, x), "scalar": (2 * t(3.0, device=d) + 1).item(),
    "gradient": linear.weight.grad.tolist(), "sgd": round(before - linear.weight.sum().item(), 3), "loss": round(loss.item(), 5),
    "half": half.softmax(0).float().sum().item() > 0.9, "complex": torch.complex(t(1.0), t(2.0)).to(d).conj().imag.item(),
    "transposed": torch.arange(6, device=d).view(2, 3).t().contiguous().tolist(), "order": order, "order after": torch.randperm(6).tolist(),
    "noise": bool(((noise >= 0) & (noise < 1)).all()) and len(noise.unique()) > 50,
    "einsum": torch.einsum("i,i->", x.float(), x.float()).item(),
}
print(json.dumps(results))
