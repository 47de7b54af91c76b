"""With --fake-data: data sets that are not there are made up. Shapes and lengths are ours: what a batch takes follows the program's own
transforms and its tokenizer."""
import os
import random
import sys
import tempfile

from . import say, setting

ROWS, IMAGE_ROWS, WORDS, SENTENCE, CLASSES, IMAGE = 1024, 256, 120, 40, 10, 256
# Columns of data sets that many programs name. Kinds: see `value`.
KNOWN = {
    "alpaca": {"instruction": "text", "input": "text", "output": "text", "text": "text"},
    "agnews": {"text": "text", "label": "class"},
    "c4": {"text": "text"},
    "capybara": {"messages": "messages"},
    "cifar": {"img": "image", "label": "class"},
    "cnndailymail": {"article": "text", "highlights": "text", "id": "text"},
    "deepmath": {"prompt": "question", "solution": "text"},
    "dolly": {"instruction": "text", "context": "text", "response": "text"},
    "food101": {"image": "image", "label": "class"},
    "glue cola": {"sentence": "sentence", "label": "class", "idx": "number"},
    "glue mnli": {"premise": "sentence", "hypothesis": "sentence", "label": "class", "idx": "number"},
    "glue qnli": {"question": "sentence", "sentence": "sentence", "label": "class", "idx": "number"},
    "glue qqp": {"question1": "sentence", "question2": "sentence", "label": "class", "idx": "number"},
    "glue sst2": {"sentence": "sentence", "label": "class", "idx": "number"},
    "glue": {"sentence1": "sentence", "sentence2": "sentence", "label": "class", "idx": "number"},
    "gsm8k": {"question": "text", "answer": "text"},
    "guanaco": {"text": "text"},
    "imagenet": {"image": "image", "label": "class"},
    "imdb": {"text": "text", "label": "class"},
    "mnist": {"image": "image", "label": "class"},
    "samsum": {"id": "text", "dialogue": "text", "summary": "text"},
    "squad": {"id": "text", "title": "text", "context": "text", "question": "text", "answers": "answers"},
    "tldr": {"prompt": "text", "completion": "text"},
    "ultrachat": {"prompt": "text", "messages": "messages"},
    "ultrafeedback": {"chosen": "messages", "rejected": "messages"},
    "wikitext": {"text": "text"},
}
OTHERWISE = {"text": "text", "label": "class"}
# In a program that has one of these modules, an unknown name is that of images.
OF_IMAGES = ("diffusers", "timm")
# What a metric of evaluate returns, if not its name alone.
METRICS = {"glue": ("accuracy", "f1"), "rouge": ("rouge1", "rouge2", "rougeL", "rougeLsum"), "squad": ("exact_match", "f1"),
           "sacrebleu": ("score",), "seqeval": ("overall_precision", "overall_recall", "overall_f1", "overall_accuracy"),
           "mean_iou": ("mean_iou", "mean_accuracy", "overall_accuracy")}
TOKENS = {"vocab": 50256, "r50k_base": 50256, "p50k_base": 50280, "cl100k_base": 100256, "o200k_base": 199998}
SPLITS = ("train", "validation", "test")


def words(rng, count=WORDS):
    return " ".join("".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 8))) for _ in range(rng.randint(count // 2, count)))


def image(rng):
    from PIL import Image
    return Image.frombytes("RGB", (IMAGE, IMAGE), rng.randbytes(IMAGE * IMAGE * 3))


def value(kind, rng, row):
    if kind in ("messages", "question"):  # of a row, all begin with the same
        question = {"role": "user", "content": words(random.Random(row))}
        return [question, {"role": "assistant", "content": words(rng)}] if kind == "messages" else [question]
    if kind == "answers":
        return {"text": [words(rng, 4)], "answer_start": [0]}
    return {"text": lambda: words(rng), "sentence": lambda: words(rng, SENTENCE), "class": lambda: rng.randint(0, 1),
            "number": lambda: row, "image": lambda: image(rng)}[kind]()


def of_feature(feature, rng, row):
    """A value of a column as the data set's own description has it."""
    import datasets
    if isinstance(feature, dict):
        if set(feature) >= {"role", "content"}:
            return {name: "user" if name == "role" else of_feature(part, rng, row) for name, part in feature.items()}
        return {name: of_feature(part, rng, row) for name, part in feature.items()}
    if isinstance(feature, list):
        return [of_feature(feature[0], rng, row) for _ in range(2)]
    if isinstance(feature, datasets.ClassLabel):
        return rng.randrange(feature.num_classes)
    if isinstance(feature, datasets.Image):
        return image(rng)
    if isinstance(feature, datasets.Value):
        return words(rng) if "string" in feature.dtype else True if feature.dtype == "bool" else row if "int" in feature.dtype else 0.5
    inner = getattr(feature, "feature", None)
    if inner is None:
        return None
    values = [of_feature(inner, rng, row) for _ in range(2)]
    if isinstance(inner, dict) and type(feature).__name__ == "Sequence":
        return {name: [one[name] for one in values] for name in inner}
    return values


def described(path, name, kwargs):
    """Features and splits that the hub tells without the data, or None."""
    import datasets
    try:
        info = datasets.load_dataset_builder(path, name, **{key: kwargs[key] for key in ("revision", "token") if key in kwargs}).info
    except Exception:
        return None
    return (info.features, list(info.splits or SPLITS)) if info.features else None


def make(path, name, split, kwargs):
    import datasets
    found, rng = described(path, name, kwargs), random.Random(1)
    plain = f"{path} {name or ''}".lower().replace("_", "").replace("-", "")
    key = next((key for key in KNOWN if key in plain), None)
    images = any(name in sys.modules for name in OF_IMAGES)
    columns = KNOWN.get(key, {"image": "image", **OTHERWISE} if images else OTHERWISE)
    if found:
        features, splits = found
        count = IMAGE_ROWS if any(isinstance(feature, datasets.Image) for feature in features.values()) else ROWS
        rows = [{column: of_feature(feature, rng, row) for column, feature in features.items()} for row in range(count)]
        made = datasets.Dataset.from_list(rows, features=features)
    else:
        splits = list(SPLITS)
        count = IMAGE_ROWS if "image" in columns.values() else ROWS
        made = datasets.Dataset.from_list([{column: value(kind, rng, row) for column, kind in columns.items()} for row in range(count)])
    say(f"data set {path} is made up: {count} rows of {', '.join(made.column_names)}")
    if split is None:
        return datasets.DatasetDict({one: made for one in splits})
    return [made for _ in split] if isinstance(split, (list, tuple)) else made


def install_datasets(load):
    own = load.load_dataset

    def load_dataset(path, name=None, *args, split=None, **kwargs):
        try:
            return own(path, name, *args, split=split, **kwargs)
        except Exception as error:
            if isinstance(error, (TypeError, KeyboardInterrupt)):
                raise
            return make(path, name, split, kwargs)
    load.load_dataset = load_dataset


def image_folder(root):
    """A folder of classes with a few images each; each image is there many times, as a link."""
    rng, made = random.Random(1), tempfile.mkdtemp(prefix="vramtrace-dryrun-")
    first = os.path.join(made, "image.png")
    image(rng).save(first)
    for number in range(CLASSES):
        folder = os.path.join(made, "classes", f"class{number}")
        os.makedirs(folder)
        for i in range(IMAGE_ROWS // CLASSES + 1):
            os.symlink(first, os.path.join(folder, f"{i}.png"))
    say(f"image folder {root} is made up: {CLASSES} classes, {IMAGE} x {IMAGE} pixels")
    return os.path.join(made, "classes")


def install_folders(folder):
    own = folder.DatasetFolder.__init__

    def __init__(self, root, *args, **kwargs):
        own(self, root if os.path.isdir(root) else image_folder(root), *args, **kwargs)
    folder.DatasetFolder.__init__ = __init__


def install_memmap(numpy):
    own = numpy.memmap.__new__

    def __new__(cls, filename, *args, **kwargs):
        if isinstance(filename, (str, os.PathLike)) and not os.path.exists(filename) and str(filename).endswith((".bin", ".npy", ".dat")):
            mode = args[1] if len(args) > 1 else kwargs.get("mode", "r+")
            if mode in ("r", "c"):
                say(f"{filename} is made up: 64 MiB of zeros")
                file = tempfile.NamedTemporaryFile(prefix="vramtrace-dryrun-", delete=True)
                file.truncate(64 << 20)
                return own(cls, file.name, *args, **kwargs)
        return own(cls, filename, *args, **kwargs)
    numpy.memmap.__new__ = staticmethod(__new__)


def install_mnist(mnist):
    """The files of MNIST and its like: as many images as the real ones have."""
    import torch
    cls = mnist.MNIST
    own_exists, own_load = cls._check_exists, cls._load_data

    def load(self):
        if own_exists(self):
            return own_load(self)
        count, generator = 60000 if self.train else 10000, torch.Generator().manual_seed(1)
        say(f"{type(self).__name__} in {self.root} is made up: {count} images")
        return torch.randint(0, 256, (count, 28, 28), dtype=torch.uint8, generator=generator), torch.arange(count) % CLASSES
    cls._check_exists, cls.download, cls._load_data = lambda self: True, lambda self: None, load


def install_cifar(cifar):
    import numpy
    cls = cifar.CIFAR10
    own = cls.__init__

    def __init__(self, root, train=True, transform=None, target_transform=None, download=False):
        if os.path.isdir(os.path.join(root, self.base_folder)):
            return own(self, root, train, transform, target_transform, download)
        super(cls, self).__init__(root, transform=transform, target_transform=target_transform)
        count, classes = 50000 if train else 10000, 100 if isinstance(self, cifar.CIFAR100) else 10
        say(f"{type(self).__name__} in {root} is made up: {count} images")
        self.train, self.data = train, numpy.random.default_rng(1).integers(0, 256, (count, 32, 32, 3), dtype=numpy.uint8)
        self.targets, self.classes = [row % classes for row in range(count)], [f"class{number}" for number in range(classes)]
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}
    cls.__init__ = __init__


class Metric:
    """In place of one of the hub's, which is a program to download: every result is 0."""

    def __init__(self, name):
        self.name = name

    def add(self, *args, **kwargs):
        pass

    add_batch = add

    def compute(self, *args, **kwargs):
        return dict.fromkeys(METRICS.get(self.name, [self.name]), 0.0)


def install_metrics(loading):
    own = loading.load

    def load(path, *args, **kwargs):
        try:
            return own(path, *args, **kwargs)
        except Exception as error:
            if isinstance(error, TypeError):
                raise
            say(f"metric {path} is made up: 0")
            return Metric(path)
    loading.load = load


def install_tokens(load):
    """Tables of tiktoken: as many tokens as the real ones have; a text is one token a byte."""
    def or_made_up(own):
        def ranks(*args, **kwargs):
            try:
                return own(*args, **kwargs)
            except Exception:
                file = next(iter((*args, *kwargs.values())))
                name = os.path.basename(file).partition(".")[0]
                if name not in TOKENS:
                    raise
                say(f"{file} is made up: {TOKENS[name]} tokens")
                return {bytes([i]) if i < 256 else f"token {i}".encode(): i for i in range(TOKENS[name])}
        return ranks
    load.load_tiktoken_bpe = or_made_up(load.load_tiktoken_bpe)
    load.data_gym_to_mergeable_bpe_ranks = or_made_up(load.data_gym_to_mergeable_bpe_ranks)


INSTALL = {"datasets.load": install_datasets, "torchvision.datasets.folder": install_folders, "torchvision.datasets.mnist": install_mnist,
           "torchvision.datasets.cifar": install_cifar, "evaluate.loading": install_metrics, "numpy": install_memmap,
           "tiktoken.load": install_tokens}


def install(module):
    if setting("FAKE_DATA"):
        INSTALL[module.__name__](module)
