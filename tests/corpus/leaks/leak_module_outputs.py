"""A module in the manner of Lightning: training_step appends what it returns, and the hook of the epoch's end forgets to clear it."""
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten())
        self.head = nn.Linear(256, 10)
        self.training_step_outputs = []

    def forward(self, images):
        return self.head(self.features(images))

    def training_step(self, batch, index):
        images, labels = batch
        logits = self(images)  # LEAK
        loss = functional.cross_entropy(logits, labels)  # LEAK
        self.training_step_outputs.append({"loss": loss, "index": index})
        return loss

    def on_train_epoch_end(self):
        return sum(float(output["loss"]) for output in self.training_step_outputs) / len(self.training_step_outputs)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)


class Trainer:
    def __init__(self, epochs):
        self.epochs = epochs

    def fit(self, module, loader, after_step):
        optimizer = module.configure_optimizers()
        for _ in range(self.epochs):
            for index, batch in enumerate(loader):
                loss = module.training_step([part.to("cuda") for part in batch], index)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                after_step()
            module.on_train_epoch_end()


def main(probe):
    torch.backends.cudnn.enabled = False
    data = TensorDataset(torch.randn(96, 3, 16, 16), torch.zeros(96, dtype=torch.long))
    Trainer(epochs=3).fit(Classifier().cuda(), DataLoader(data, batch_size=16), probe.step)
