"""Sparse tensors whose elements meet, and gradients of a sparse embedding: prints how many are left, and what they are."""
import torch

at = torch.tensor([[0, 1, 0, 2, 1], [2, 0, 2, 1, 0]], device="cuda")
met = torch.sparse_coo_tensor(at, torch.arange(1, 6.0, device="cuda"), (3, 3)).coalesce()
print(met._nnz(), met.indices().tolist(), met.values().tolist())
embedding = torch.nn.Embedding(1000, 64, sparse=True).cuda()
optimizer = torch.optim.SparseAdam(embedding.parameters())
drawn = torch.randint(0, 1000, (4000,))
embedding(drawn.cuda()).sum().backward()
print(embedding.weight.grad.coalesce()._nnz() - drawn.unique().numel())
optimizer.step()
