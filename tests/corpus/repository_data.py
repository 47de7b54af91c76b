"""What programs of repositories.md get in place of what they would download: small and random. Each function has the script's folder."""
import io
import os
import random
import sys
import types

import numpy
import torch

IMAGES, NAMES = 512, 10


def put(module, **things):
    """In the place of what has these names in the module."""
    for name, thing in things.items():
        setattr(module, name, thing)


class Images:
    """Takes the place of a data set of torchvision: 8-bit images and labels."""

    shape: tuple[int, ...] = (28, 28)

    def __init__(self, root=None, train=True, transform=None, target_transform=None, download=False, **others):
        self.transform, self.target_transform = transform, target_transform
        self.data = torch.randint(0, 256, (IMAGES, *self.shape), dtype=torch.uint8)
        self.targets = torch.arange(IMAGES) % NAMES
        self.classes = [str(number) for number in range(NAMES)]

    def __len__(self):
        return IMAGES

    def __getitem__(self, index):
        import PIL.Image
        image, target = PIL.Image.fromarray(self.data[index].numpy()), int(self.targets[index])
        return (self.transform(image) if self.transform else image,
                self.target_transform(target) if self.target_transform else target)


class Colours(Images):
    shape = (32, 32, 3)


def torchvision_sets(folder):
    from torchvision import datasets
    for name in ("MNIST", "FashionMNIST", "KMNIST"):
        put(datasets, **{name: type(name, (Images, torch.utils.data.Dataset), {})})
    for name in ("CIFAR10", "CIFAR100", "SVHN"):
        put(datasets, **{name: type(name, (Colours, torch.utils.data.Dataset), {})})


def torchvision_weights(folder):
    """Weights that would be downloaded are the random ones that the models begin with."""
    from torchvision import models

    def without(make):
        return lambda *arguments, **options: make()

    for name in ("vgg16", "vgg19", "resnet18", "resnet50", "resnet101", "resnet152"):
        put(models, **{name: without(getattr(models, name))})


def pictures(folder, *where, count=24, size=300):
    import PIL.Image
    folder = folder.joinpath(*where)
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        pixels = numpy.random.randint(0, 256, (size, size, 3), dtype=numpy.uint8)
        PIL.Image.fromarray(pixels).save(folder / f"{number}.jpg")


def picture_folder(folder):
    pictures(folder, "pictures", "one")


def bsds300(folder):
    for part in ("train", "test"):
        pictures(folder, "dataset", "BSDS300", "images", part)


def text(folder):
    generator = random.Random(0)
    words = ["".join(generator.choices("abcdefghijklmnopqrstuvwxyz", k=generator.randint(2, 9))) for _ in range(2000)]
    (folder / "input.txt").write_text("O God, O God! " + " ".join(generator.choices(words, k=20000)))


def shakespeare_char(folder):
    for name in ("train", "val"):
        numpy.random.randint(0, 65, 100000, dtype=numpy.uint16).tofile(folder / "data" / "shakespeare_char" / f"{name}.bin")


def tiny_stories(folder):
    """A shard of tokens as llama2.c pretokenizes it, with a vocabulary of its own."""
    place = folder / "data" / "tok512"
    place.mkdir(parents=True)
    for number in range(2):
        numpy.random.randint(0, 512, 100000, dtype=numpy.uint16).tofile(place / f"data{number}.bin")
    put(sys.modules.setdefault("sentencepiece", types.ModuleType("sentencepiece")), SentencePieceProcessor=None)


def cora(folder, nodes=600, words=300):
    """The files, and a download that gives nothing to unpack."""
    import requests
    (folder / "cora").mkdir()
    generator = numpy.random.default_rng(0)
    rows = [f"{node} {' '.join(map(str, generator.integers(0, 2, words)))} class{node % 7}" for node in range(nodes)]
    (folder / "cora" / "cora.content").write_text("\n".join(rows))
    (folder / "cora" / "cora.cites").write_text("\n".join("{} {}".format(*generator.integers(0, nodes, 2)) for _ in range(2 * nodes)))

    class Nothing(types.SimpleNamespace):
        __enter__, __exit__, extractall = lambda self: self, lambda self, *error: None, lambda self, *options: None

    import tarfile
    put(requests, get=lambda *arguments, **options: Nothing(raw=None))
    put(tarfile, open=lambda *arguments, **options: Nothing())


def one_process(folder):
    """The only process of a group, as torchrun would start it."""
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", LOCAL_WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")


def lines(path, count=600):
    path.parent.mkdir(parents=True, exist_ok=True)
    generator = random.Random(len(path.name))
    path.write_text("\n".join(" ".join(f"word{generator.randrange(900)}" for _ in range(20)) for _ in range(count)) + "\n")


def words(folder):
    for name in ("train", "valid", "test"):
        lines(folder / "words" / f"{name}.txt")


def penn_treebank(folder):
    lines(folder / "data" / "train.txt")


def fid_pictures(folder):
    """What denoising-diffusion-pytorch trains on, and the network that it compares images with."""
    import pytorch_fid.inception
    import torchvision
    pictures(folder, "path", "to", "your", "images", count=120, size=130)
    pytorch_fid.inception.fid_inception_v3 = lambda: torchvision.models.inception_v3(weights=None, aux_logits=False, init_weights=False)


def atari(folder):
    """ale-py asks for a newer gymnasium than cleanrl does before it adds its games."""
    import ale_py.registration
    ale_py.registration.register_v5_envs()


# ---- What programs ask of values, where kernels compute none ----


def any_action(folder):
    """Environments get actions of their own choice in place of the model's."""
    from gymnasium.vector import SyncVectorEnv
    original = SyncVectorEnv.step_async
    SyncVectorEnv.step_async = lambda environments, actions: original(environments, environments.action_space.sample())


def any_values(folder):
    """torch.normal reads whether a deviation is below zero; torch.prod compiles its kernel."""
    prod = torch.prod

    def normal(mean, std, **options):
        shape = torch.broadcast_shapes(*(value.shape for value in (mean, std) if isinstance(value, torch.Tensor)))
        device = next(value.device for value in (mean, std) if isinstance(value, torch.Tensor))
        return torch.randn(shape, device=device).mul_(std).add_(mean)

    torch.normal, torch.prod = normal, lambda tensor: prod(tensor.cpu()).to(tensor.device)


# ---- What else is not as where the programs were written ----


def without_cudnn(folder):
    """A program that switches cuDNN on does not: its graphs need the real one."""
    type(torch.backends.cudnn).enabled = property(lambda module: False, lambda module, on: None)


def older_pillow(folder):
    import PIL.Image
    PIL.Image.ANTIALIAS = PIL.Image.LANCZOS


def terminal(folder):
    """One of 80 columns."""
    put(os, popen=lambda *arguments: io.StringIO("24 80"))
