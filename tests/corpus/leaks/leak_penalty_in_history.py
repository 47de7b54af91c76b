"""A gradient penalty is watched and not trained; its history keeps each one with the second-order graph."""
import torch

from leak_truth import STEPS, batch, small_net


class Wandb:
    """Keeps what it is given till the run is finished."""

    def __init__(self):
        self._history = []

    def log(self, **row):
        self._history.append(row)


def penalty(critic, x):
    x = x.clone().requires_grad_()  # LEAK
    score = critic(x)  # LEAK
    gradient, = torch.autograd.grad(score.sum(), x, create_graph=True)  # LEAK
    return (gradient.norm(dim=1) - 1).square().mean()


def main(probe):
    critic, run = small_net(out=1), Wandb()
    optimizer = torch.optim.RMSprop(critic.parameters(), lr=1e-4)
    for step in range(STEPS):
        real, fake = batch(), batch()
        loss = critic(fake).mean() - critic(real).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        run.log(step=step, loss=loss.item(), penalty=penalty(critic, real))
        probe.step()
