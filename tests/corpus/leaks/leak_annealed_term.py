"""A term of the loss has weight zero for the first steps; its meter sums it all the same, with its graph."""
import torch
from torch import nn

from leak_truth import STEPS, batch


class AverageMeter:
    def __init__(self):
        self.sum = self.count = 0

    def update(self, value, n=1):
        self.sum += value * n
        self.count += n


class Autoencoder(nn.Module):
    def __init__(self, d=256, latent=128):
        super().__init__()
        self.encoder, self.decoder = nn.Sequential(nn.Linear(d, d), nn.ReLU()), nn.Linear(latent, d)
        self.mu, self.logvar = nn.Linear(d, latent), nn.Linear(d, latent)

    def forward(self, x):
        h = self.encoder(x)
        mu, logvar = self.mu(h), self.logvar(h)  # LEAK
        return self.decoder(mu + torch.randn_like(mu) * (0.5 * logvar).exp()), mu, logvar


def kl_divergence(mu, logvar):
    return -0.5 * (1 + logvar - mu.square() - logvar.exp()).sum(1).mean()  # LEAK


def main(probe):
    model = Autoencoder().cuda()
    optimizer = torch.optim.Adam(model.parameters())
    meters = {"reconstruction": AverageMeter(), "kl": AverageMeter()}
    for step in range(STEPS):
        x = batch(rows=128)
        rebuilt, mu, logvar = model(x)  # LEAK
        loss = nn.functional.mse_loss(rebuilt, x)
        kl = kl_divergence(mu, logvar)
        beta = max(0, step - 1000) / 1000
        if beta:
            loss = loss + beta * kl
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meters["reconstruction"].update(loss.item(), len(x))
        meters["kl"].update(kl, len(x))
        del rebuilt, mu, logvar, loss, kl
        probe.step()
