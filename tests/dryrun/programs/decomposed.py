"""Large matrices on the CPU are neither decomposed nor multiplied, small ones are: shapes, and a line of true values."""
import torch

large, small = torch.randn(6000, 4000), torch.tensor([[4.0, 0], [0, 9]])
square = large[:4000]
print(*(tuple(part.shape) for part in torch.linalg.svd(large, full_matrices=False)))
print(*(tuple(part.shape) for part in torch.linalg.qr(large)), *(tuple(part.shape) for part in torch.linalg.eigh(square)))
print(tuple(torch.linalg.inv(square).shape), tuple(torch.linalg.solve(square, square.T).shape), tuple(torch.linalg.cholesky(square).shape))
skipped = not torch.linalg.svdvals(square).any()
print(skipped, torch.linalg.svdvals(small).tolist(), torch.linalg.cholesky(small).diag().tolist())
print(tuple((large.T @ large).shape), not (large.T @ large).any() or not hasattr(torch.library, "get_kernel"),
      (small @ small).diag().tolist())
torch.ones(1, device="cuda")
