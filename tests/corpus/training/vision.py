"""Pictures: classification, segmentation, a variational autoencoder, predictions averaged over flips."""
import torch
import torchvision
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset


# --- a residual network, as in the tutorials -----------------------------------------------------------------------------

class Pictures(Dataset):
    def __init__(self, count, side=64, classes=100):
        self.count, self.side, self.classes = count, side, classes

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return torch.rand(3, self.side, self.side), index % self.classes


def accuracy(output, target, topk=(1, 5)):
    with torch.no_grad():
        _, predicted = output.topk(max(topk), 1)
        correct = predicted.t().eq(target.view(1, -1))
        return [correct[:k].reshape(-1).float().sum().mul(100.0 / len(target)).item() for k in topk]


def train_epoch(record, epoch, loader, model, criterion, optimizer):
    model.train()
    device = torch.device("cuda")
    for i, (images, target) in enumerate(loader):
        step = epoch * len(loader) + i
        images = images.to(device, non_blocking=True)
        target = target.to(device, non_blocking=True)
        output = model(images)
        loss = criterion(output, target)
        record.take("fwd", step, (images, target))
        accuracy(output, target)
        optimizer.zero_grad()
        loss.backward()
        record.take("bwd", step, (images, target))
        optimizer.step()
        record.take("step", step, (images, target))


def validate(record, epoch, loader, model, criterion):
    model.eval()
    with torch.no_grad(), record.free_choice():
        for images, target in loader:
            images, target = images.cuda(non_blocking=True), target.cuda(non_blocking=True)
            output = model(images)
            criterion(output, target).item()
            accuracy(output, target)
            record.take("val", 100 + epoch, (images, target))


def resnet_two_epochs(record):
    """SGD with momentum and weight decay, a scheduler, a validation after each epoch."""
    model = torchvision.models.ResNet(torchvision.models.resnet.BasicBlock, [1, 1, 1, 1], num_classes=100).cuda()
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.1)
    record.watch([model], [optimizer])
    train_loader = DataLoader(Pictures(24), batch_size=8, shuffle=True, pin_memory=True)
    val_loader = DataLoader(Pictures(16), batch_size=16, pin_memory=True)
    for epoch in range(2):
        train_epoch(record, epoch, train_loader, model, criterion, optimizer)
        validate(record, epoch, val_loader, model, criterion)
        scheduler.step()


# --- segmentation ----------------------------------------------------------------------------------------------------------

def double(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True),
                         nn.Conv2d(o, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, classes=4, widths=(24, 48, 96, 192)):
        super().__init__()
        self.down = nn.ModuleList(double(i, o) for i, o in zip((3, *widths), widths))
        self.pool = nn.MaxPool2d(2)
        self.up = nn.ModuleList(nn.ConvTranspose2d(o, i, 2, 2) for i, o in zip(widths, widths[1:]))
        self.merge = nn.ModuleList(double(2 * i, i) for i in widths[:-1])
        self.out = nn.Conv2d(widths[0], classes, 1)

    def forward(self, x):
        skips = []
        for i, block in enumerate(self.down):
            x = block(x if i == 0 else self.pool(x))
            skips.append(x)
        x = skips.pop()
        for up, merge in zip(reversed(self.up), reversed(self.merge)):
            x = merge(torch.cat([skips.pop(), up(x)], dim=1))
        return self.out(x)


class DiceLoss(nn.Module):
    def __init__(self, smooth=1.0):
        super().__init__()
        self.smooth = smooth

    def forward(self, logits, target):
        probabilities = logits.softmax(1)
        wanted = F.one_hot(target, logits.shape[1]).permute(0, 3, 1, 2).float()
        both = (probabilities * wanted).sum((0, 2, 3))
        total = probabilities.sum((0, 2, 3)) + wanted.sum((0, 2, 3))
        return 1 - ((2 * both + self.smooth) / (total + self.smooth)).mean()


def unet_segmentation(record):
    """Cross entropy with weights of classes, dice, and a loss of edges; a table of hits is kept on the device."""
    model = UNet().to("cuda")
    weights = torch.tensor([0.1, 1.0, 1.0, 2.0], device="cuda")
    criterion, dice = nn.CrossEntropyLoss(weight=weights), DiceLoss()
    sobel = torch.tensor([[-1., 0., 1.], [-2., 0., 2.], [-1., 0., 1.]], device="cuda").view(1, 1, 3, 3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=1e-2)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-3, total_steps=5)
    record.watch([model], [optimizer])
    confusion = torch.zeros(4, 4, device="cuda")
    for step in range(5):
        image = torch.rand(2, 3, 64, 64).to("cuda")
        mask = torch.randint(0, 4, (2, 64, 64)).to("cuda")
        logits = model(image)
        edges = F.conv2d(logits.softmax(1)[:, 1:2], sobel, padding=1).abs().mean()
        loss = criterion(logits, mask) + dice(logits, mask) + 0.05 * edges
        record.take("fwd", step, (image, mask))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        record.take("bwd", step, (image, mask))
        optimizer.step()
        scheduler.step()
        with torch.no_grad():
            predicted = logits.argmax(1)
            for truth in range(4):
                confusion[truth] += torch.stack([((predicted == guess) & (mask == truth)).sum() for guess in range(4)])
        record.take("step", step, (image, mask))


# --- a variational autoencoder ----------------------------------------------------------------------------------------------

class VAE(nn.Module):
    def __init__(self, latent=64):
        super().__init__()
        self.fc1 = nn.Linear(784, 800)
        self.fc21, self.fc22 = nn.Linear(800, latent), nn.Linear(800, latent)
        self.fc3, self.fc4 = nn.Linear(latent, 800), nn.Linear(800, 784)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        return mu + torch.randn_like(std) * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 784))
        z = self.reparameterize(mu, logvar)
        return self.decode(z), mu, logvar


def vae_loss(rebuilt, x, mu, logvar):
    bce = F.binary_cross_entropy(rebuilt, x.view(-1, 784), reduction="sum")
    return bce - 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())


def vae_of_digits(record):
    """PyTorch's example; after the epochs pictures are made of the same noise."""
    device = torch.device("cuda")
    model = VAE().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    record.watch([model], [optimizer])
    data = TensorDataset(torch.rand(512, 1, 28, 28), torch.zeros(512))
    for step, (x, _) in enumerate(DataLoader(data, batch_size=128, shuffle=True)):
        model.train()
        x = x.to(device)
        optimizer.zero_grad()
        rebuilt, mu, logvar = model(x)
        loss = vae_loss(rebuilt, x, mu, logvar)
        record.take("fwd", step, (x,))
        loss.backward()
        record.take("bwd", step, (x,))
        optimizer.step()
        record.take("step", step, (x,))
        with torch.no_grad(), record.free_choice():
            sample = torch.randn(64, 64).to(device)
            record.note("input", [sample])
            sample = model.decode(sample).cpu()


# --- test-time augmentation ---------------------------------------------------------------------------------------------------

VIEWS = {
    "as is": lambda x: x,
    "mirrored": lambda x: torch.flip(x, dims=[3]),
    "upside down": lambda x: torch.flip(x, dims=[2]),
    "turned": lambda x: torch.rot90(x, 1, dims=[2, 3]),
}


@torch.inference_mode()
def predict(record, model, loader):
    all_probabilities, all_labels = [], []
    for step, (images, labels) in enumerate(loader):
        images = images.to("cuda", memory_format=torch.channels_last)
        with record.free_choice():
            total = None
            for view in VIEWS.values():
                turned = view(images)
                record.note("input", [turned])
                with torch.autocast("cuda", dtype=torch.float16):
                    probabilities = model(turned).float().softmax(1)
                total = probabilities if total is None else total + probabilities
            del turned
            all_probabilities.append(total / len(VIEWS))
        all_labels.append(labels)
        record.take("batch", step, (images,))
    with record.free_choice():
        predicted = torch.cat(all_probabilities).argmax(1).cpu()
    return predicted, torch.cat(all_labels)


def averaged_over_flips(record):
    """Each picture is classified in four views; the probabilities of all pictures are joined at the end."""
    model = torchvision.models.mobilenet_v2(num_classes=50).eval().to("cuda", memory_format=torch.channels_last)
    record.watch([model])
    predicted, labels = predict(record, model, DataLoader(Pictures(40, side=48, classes=50), batch_size=8))
    (predicted == labels).float().mean().item()
    record.take("end", 5)
