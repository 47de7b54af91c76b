"""With --random-weights: from_pretrained of transformers and diffusers reads a model folder that is made from the configuration alone. Its
weights are a safetensors file with a true header and a hole for the data, so that loading goes its real way."""
import atexit
import functools
import os
import shutil
import tempfile

from . import say, setting
from .saving import write_sparse

# What from_pretrained passes on to the loading of a configuration.
OF_CONFIG = ("cache_dir", "force_download", "local_files_only", "token", "revision", "subfolder", "trust_remote_code")
# What tells it which files of the hub to read.
OF_FILES = ("revision", "subfolder", "variant", "force_download", "use_safetensors")


def temporary_folder():
    folder = tempfile.mkdtemp(prefix="vramtrace-dryrun-")
    atexit.register(shutil.rmtree, folder, True)
    return folder


def has_weights(path):
    return os.path.isdir(path) and any(name.endswith((".safetensors", ".bin", ".index.json")) for name in os.listdir(path))


def make_folder(torch, cls, config):
    dtype = getattr(config, "dtype", None) or getattr(config, "torch_dtype", None) or torch.float32
    with torch.device("meta"):
        model = cls(config).to(dtype if isinstance(dtype, torch.dtype) else getattr(torch, str(dtype).partition(".")[2] or str(dtype)))
    tied = set(getattr(model, "_tied_weights_keys", None) or ()) if getattr(config, "tie_word_embeddings", False) else ()
    folder = temporary_folder()
    config.save_pretrained(folder)
    tensors = {name: tensor for name, tensor in model.state_dict().items() if name not in tied}
    write_sparse(os.path.join(folder, "model.safetensors"), tensors)
    return folder


def install_diffusers(torch, modeling_utils):
    own = modeling_utils.ModelMixin.from_pretrained.__func__

    @classmethod
    @functools.wraps(own)
    def from_pretrained(cls, path, **kwargs):
        if path is None or has_weights(os.path.join(str(path), kwargs.get("subfolder") or "")):
            return own(cls, path, **kwargs)
        config = cls.load_config(path, **{key: kwargs[key] for key in OF_CONFIG if key in kwargs and key != "trust_remote_code"})
        say(f"{cls.__name__} has random weights: {path} is made from its configuration")
        dtype = kwargs.get("torch_dtype")
        with torch.device("meta"):
            model = cls.from_config(config).to(dtype if isinstance(dtype, torch.dtype) else torch.float32)
        folder = temporary_folder()
        model.save_config(folder)
        write_sparse(os.path.join(folder, modeling_utils.SAFETENSORS_WEIGHTS_NAME), model.state_dict())
        return own(cls, folder, **{key: value for key, value in kwargs.items() if key not in OF_FILES})

    modeling_utils.ModelMixin.from_pretrained = from_pretrained


class Left(dict):
    """In place of a state that was not read: a model that loads it stays as it is."""


def install_torchvision(torch, api):
    own, own_load = api.WeightsEnum.get_state_dict, torch.nn.Module.load_state_dict

    def get_state_dict(self, *args, **kwargs):
        if os.path.exists(os.path.join(torch.hub.get_dir(), "checkpoints", os.path.basename(self.url))):
            return own(self, *args, **kwargs)
        say(f"{self} are random weights")
        return Left()

    @functools.wraps(own_load)
    def load_state_dict(self, state_dict, *args, **kwargs):
        return None if isinstance(state_dict, Left) else own_load(self, state_dict, *args, **kwargs)

    api.WeightsEnum.get_state_dict, torch.nn.Module.load_state_dict = get_state_dict, load_state_dict


def install_timm(builder):
    own = builder.load_pretrained

    @functools.wraps(own)
    def load_pretrained(model, pretrained_cfg=None, *args, **kwargs):
        config = pretrained_cfg or getattr(model, "pretrained_cfg", None) or {}
        read = config.get if isinstance(config, dict) else lambda name: getattr(config, name, None)
        if read("file") or read("state_dict"):
            return own(model, pretrained_cfg, *args, **kwargs)
        say(f"{type(model).__name__} has random weights")

    builder.load_pretrained = load_pretrained


def install(modeling_utils):
    if not setting("RANDOM_WEIGHTS"):
        return
    import torch
    if modeling_utils.__name__.startswith("diffusers"):
        return install_diffusers(torch, modeling_utils)
    if modeling_utils.__name__.startswith("torchvision"):
        return install_torchvision(torch, modeling_utils)
    if modeling_utils.__name__.startswith("timm"):
        return install_timm(modeling_utils)
    own = modeling_utils.PreTrainedModel.from_pretrained.__func__

    @classmethod
    @functools.wraps(own)
    def from_pretrained(cls, path, *args, config=None, **kwargs):
        name = path
        if path is not None and not has_weights(str(path)):
            from transformers import PretrainedConfig
            if not isinstance(config, PretrainedConfig):
                config = cls.config_class.from_pretrained(config or path, **{key: kwargs[key] for key in OF_CONFIG if key in kwargs})
            say(f"{cls.__name__} has random weights: {path} is made from its configuration")
            path = make_folder(torch, cls, config)
            for one in OF_FILES:
                kwargs.pop(one, None)
        loaded = own(cls, path, *args, config=config, **kwargs)
        if path is not name:  # programs look there for the tokenizer
            model = loaded[0] if isinstance(loaded, tuple) else loaded
            model.name_or_path = model.config.name_or_path = str(name)
        return loaded

    modeling_utils.PreTrainedModel.from_pretrained = from_pretrained
