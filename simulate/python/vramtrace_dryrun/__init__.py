"""What a dry run changes inside the program's Python, each part after the import of the module that it is about.

Settings are environment variables: VRAMTRACE_DRYRUN_VALUES (on), _STEPS, _BATCHES, _RANDOM_WEIGHTS, _FAKE_DATA. A part that fails says so
in a line on stderr, and the program goes on without it."""
import contextlib
import importlib
import importlib.abc
import importlib.metadata
import importlib.util
import os
import sys
import warnings

# By module: the parts that change it, in order.
PARTS = {
    "torch": ["unfilled", "values", "limits", "world"],
    "transformers.modeling_utils": ["weights"],
    "diffusers.models.modeling_utils": ["weights"],
    "huggingface_hub.constants": ["hub"],
    "huggingface_hub.file_download": ["hub"],
    "datasets.load": ["fake_data"],
    "evaluate.loading": ["fake_data"],
    "timm.models._builder": ["weights"],
    "torchvision.datasets.cifar": ["fake_data"],
    "torchvision.datasets.folder": ["fake_data"],
    "torchvision.datasets.mnist": ["fake_data"],
    "torchvision.models._api": ["weights"],
    "numpy": ["fake_data"],
}


def setting(name, default=""):
    return os.environ.get(f"VRAMTRACE_DRYRUN_{name}", default)


def say(text):
    print(f"vramtrace dryrun: {text}", file=sys.stderr)


def after(module):
    for name in PARTS[module.__name__]:
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=".*other operators may also be overridden|.*Overriding a previously registered")
                importlib.import_module(f"{__name__}.{name}").install(module)
        except Exception as error:
            say(f"{name} of {module.__name__} left as they are: {type(error).__name__}: {error}")


def tell_cudnn():
    """PyTorch wants the cuDNN that it was built with: that of the package beside it."""
    for name in ("nvidia-cudnn-cu13", "nvidia-cudnn-cu12"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            os.environ.setdefault("VRAMTRACE_STANDIN_CUDNN", importlib.metadata.version(name))


class Loader(importlib.abc.Loader):
    """The module's own loader, and then our parts."""

    def __init__(self, own):
        self.own = own

    def __getattr__(self, name):
        return getattr(self.own, name)

    def create_module(self, spec):
        return self.own.create_module(spec)

    def exec_module(self, module):
        module.__loader__ = module.__spec__.loader = self.own
        tell_cudnn()
        self.own.exec_module(module)
        after(module)


class Finder(importlib.abc.MetaPathFinder):
    busy = False

    def find_spec(self, name, path=None, target=None):
        if name not in PARTS or self.busy or name in sys.modules:
            return None
        self.busy = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.busy = False
        if spec and spec.loader and hasattr(spec.loader, "exec_module"):
            spec.loader = Loader(spec.loader)
        return spec


def begin():
    if setting("WORLD"):
        importlib.import_module(f"{__name__}.world").begin()
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())
