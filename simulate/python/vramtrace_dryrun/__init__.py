"""What a dry run changes inside the program's Python, each part after the import of the module that it is about.

Settings are environment variables: VRAMTRACE_DRYRUN_VALUES (on), _STEPS, _BATCHES, _REQUESTS, _RANDOM_WEIGHTS, _FAKE_DATA, _TRY. A part
that fails says so in a line on stderr, and the program goes on without it."""
import contextlib
import ctypes
import functools
import glob
import importlib
import importlib.abc
import importlib.metadata
import importlib.util
import os
import sys
import warnings

# By module: the parts that change it, in order.
PARTS = {
    "torch": ["unfilled", "values", "limits", "saving", "world", "changes"],
    "torch._dynamo.utils": ["compiled"],
    "torch.distributed.checkpoint.default_planner": ["saving"],
    "safetensors.torch": ["saving"],
    "transformers.modeling_utils": ["weights", "changes"],
    "diffusers.models.modeling_utils": ["weights"],
    "jax._src.hardware_utils": ["jax_plugin"],
    "huggingface_hub.constants": ["hub"],
    "huggingface_hub.file_download": ["hub"],
    "datasets.load": ["fake_data"],
    "evaluate.loading": ["fake_data"],
    "tiktoken.load": ["fake_data"],
    "timm.models._builder": ["weights"],
    "torchvision.datasets.cifar": ["fake_data"],
    "torchvision.datasets.folder": ["fake_data"],
    "torchvision.datasets.mnist": ["fake_data"],
    "torchvision.models._api": ["weights"],
    "numpy": ["fake_data"],
    "multiprocessing.process": ["ends"],
    "uvicorn.server": ["visitors"],
    "sglang.srt.managers.scheduler": ["servers"],
    "vllm.v1.worker.gpu.input_batch": ["servers"],
}


def setting(name, default=""):
    return os.environ.get(f"VRAMTRACE_DRYRUN_{name}", default)


def say(text):
    print(f"vramtrace dryrun: {text}", file=sys.stderr)


@functools.lru_cache(None)
def around():
    """(before, function, after) -> a function that calls them in turn, without a Python frame of ours around `function`."""
    folder = os.environ["VRAMTRACE_SIMULATION"].partition(":")[0]
    function = ctypes.PyDLL(os.path.join(folder, "libvramtrace_around.so")).vramtrace_around
    function.restype, function.argtypes = ctypes.py_object, [ctypes.py_object] * 3
    return function


def after(module):
    for name in PARTS[module.__name__]:
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=".*other operators may also be overridden|.*Overriding a previously registered")
                importlib.import_module(f"{__name__}.{name}").install(module)
        except Exception as error:
            say(f"{name} of {module.__name__} left as they are: {type(error).__name__}: {error}")


def tell_cudnn():
    """PyTorch wants the cuDNN that it was built with: that of the package beside it, or of conda's or the system's libraries."""
    for name in ("nvidia-cudnn-cu13", "nvidia-cudnn-cu12"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            os.environ.setdefault("VRAMTRACE_STANDIN_CUDNN", importlib.metadata.version(name))
    for folder in (f"{sys.prefix}/lib", f"/usr/lib/{os.uname().machine}-linux-gnu"):
        for path in glob.glob(f"{folder}/libcudnn.so.*.*.*"):
            os.environ.setdefault("VRAMTRACE_STANDIN_CUDNN", path.partition(".so.")[2])


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
    importlib.import_module(f"{__name__}.ends").begin()
    if setting("WORLD"):
        importlib.import_module(f"{__name__}.world").begin()
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())
