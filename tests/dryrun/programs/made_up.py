"""Data sets that are not there."""
import sys

import torch

if sys.argv[1] == "images":
    import torchvision
    data = torchvision.datasets.ImageFolder("absent/train", torchvision.transforms.Compose(
        [torchvision.transforms.RandomResizedCrop(224), torchvision.transforms.ToTensor()]))
    x, y = next(iter(torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)))
    print(tuple(x.shape), y.dtype, len(data.classes), x.cuda().numel())
elif sys.argv[1] == "tokens":
    import numpy
    data = numpy.memmap("absent/train.bin", dtype=numpy.uint16, mode="r")
    print(len(data) > 1 << 20, data.dtype, torch.from_numpy(data[:64].astype(numpy.int64)).cuda().max().item() < 50257)
else:
    from datasets import load_dataset
    data = load_dataset(sys.argv[2])
    print(sorted(data), data["train"].column_names, type(data["train"][0][data["train"].column_names[0]]).__name__)
