"""A new optimizer for each cycle of three steps, held with its state by the scheduler, which is kept."""
import torch

from leak_truth import STEPS, batch, small_net, train_step


def main(probe):
    probe.measure(every=3, first=5)
    model = small_net()
    schedulers = []
    for step in range(STEPS + 9):
        if step % 3 == 0:
            optimizer = torch.optim.AdamW(model.parameters())
            schedulers.append(torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 3))
        train_step(model, optimizer, batch())  # LEAK
        schedulers[-1].step()
        probe.step()
