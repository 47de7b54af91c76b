"""PyTorch's tutorial "How to save memory by fusing the optimizer step into the backward pass" (intermediate_source/
optimizer_step_in_backward_tutorial.py): as usual, or `fused`."""
import sys

import torch
from measure import tell
from torchvision import models

model = models.vit_l_16(weights=None).cuda()
tell(run="weights")
fused = sys.argv[1:] == ["fused"]
if fused:
    optimizers = {parameter: torch.optim.Adam([parameter]) for parameter in model.parameters()}

    def hook(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(hook)
else:
    optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    image = torch.rand(1, 3, 224, 224, device="cuda")
    loss = model(image).sum()
    loss.backward()
    if not fused:
        optimizer.step()
        optimizer.zero_grad()
tell(run="training")
