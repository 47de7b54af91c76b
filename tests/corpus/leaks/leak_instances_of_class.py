"""Each sample enters itself into a list of its class, so that statistics can be made of all samples."""
import torch

from leak_truth import STEPS, small_net, train_step


class Sample:
    instances = []

    def __init__(self, features, name):
        self.features, self.name = features, name
        Sample.instances.append(self)

    @classmethod
    def mean(cls):
        return sum(float(sample.features.mean()) for sample in cls.instances) / len(cls.instances)


def collate(samples):
    return torch.stack([sample.features for sample in samples])


def main(probe):
    model = small_net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for step in range(STEPS):
        samples = [Sample(torch.randn(256).to("cuda"), f"{step}-{i}") for i in range(24)]  # LEAK
        train_step(model, optimizer, collate(samples))
        del samples
        probe.step()
    Sample.mean()
