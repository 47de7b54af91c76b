"""Files of weights are written as on a GPU, but tensors of more than 1 MiB are holes in them, which take no disk and no time: torch.save
and safetensors.torch.save_file. A file that was there before stays as it is: what would replace it goes beside it."""
import ctypes
import functools
import io
import json
import os
import struct
import threading

from . import say, setting

LARGE = 1 << 20  # bytes
DTYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32", "int16": "I16",
          "int8": "I8", "uint8": "U8", "bool": "BOOL", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2"}


written = set()  # by this process


def free_place(path):
    if not isinstance(path, (str, os.PathLike)):
        return path
    full = os.path.abspath(path)
    if os.path.exists(full) and full not in written:
        say(f"{path} stays as it is; {path}.dryrun is written")
        return f"{os.fspath(path)}.dryrun"
    written.add(full)
    return path


def write_sparse(path, tensors, metadata=None):
    """A safetensors file. Of tensors without data (device meta), and of large ones, it has holes."""
    header, places, end = {"__metadata__": {**(metadata or {"format": "pt"})}}, [], 0
    for name, tensor in tensors.items():
        begin, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": DTYPES[str(tensor.dtype).partition(".")[2]], "shape": list(tensor.shape), "data_offsets": [begin, end]}
        if tensor.device.type != "meta" and 0 < end - begin <= LARGE:
            places.append((begin, tensor))
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)
        for begin, tensor in places:
            here = tensor.detach().cpu().contiguous()
            file.seek(8 + len(text) + begin)
            file.write(ctypes.string_at(here.data_ptr(), here.numel() * here.element_size()))


def install_safetensors(safetensors):
    own = safetensors.save_file

    @functools.wraps(own)
    def save_file(tensors, filename, metadata=None, **kwargs):
        try:
            large = any(tensor.numel() * tensor.element_size() > LARGE for tensor in tensors.values())
            known = all(str(tensor.dtype).partition(".")[2] in DTYPES for tensor in tensors.values())
        except (AttributeError, TypeError):
            large = known = False
        filename = free_place(filename)
        if kwargs or not large or not known:
            return own(tensors, filename, metadata, **kwargs)
        return write_sparse(os.fspath(filename), tensors, metadata)

    safetensors.save_file = save_file


def install_planner(planner):
    """What ranks that are not played would save is missing in torch.distributed.checkpoint's plan."""
    own = planner._validate_global_plan

    def _validate_global_plan(global_plan, metadata):
        valid = own(global_plan, metadata)
        return valid if not setting("WORLD") else [] if isinstance(valid, list) else True

    planner._validate_global_plan = _validate_global_plan


class Sparse:
    """A stream into a file, perhaps through one that keeps it open; what is large is left out."""

    def __init__(self, stream, file):
        self.stream, self.file = stream, file

    def write(self, data):
        if len(data) <= LARGE:
            return self.stream.write(data)
        self.file.seek(len(data), io.SEEK_CUR)
        return len(data)

    def __getattr__(self, name):
        return getattr(self.stream, name)


def sparse(stream):
    file = stream
    while isinstance(file, io.IOBase) and not isinstance(file, io.BufferedIOBase) and hasattr(file, "raw"):
        file = file.raw
    return Sparse(stream, file) if isinstance(file, (io.BufferedWriter, io.BufferedRandom)) else stream


def install(module):
    if module.__name__.startswith("safetensors"):
        return install_safetensors(module)
    if module.__name__.startswith("torch.distributed"):
        return install_planner(module)
    own_save, to = module.save, threading.local()

    @functools.wraps(own_save)
    def save(obj, f, *args, **kwargs):
        before, to.path = getattr(to, "path", False), isinstance(f, (str, os.PathLike))
        try:
            return own_save(obj, free_place(f) if to.path else sparse(f), *args, **kwargs)
        finally:
            to.path = before

    module.save = module.serialization.save = save
    writer = module._C.PyTorchFileWriter
    if not hasattr(writer, "write_record_metadata"):
        return
    own = writer.write_record

    def write_record(self, name, data, size):
        if size > LARGE and not isinstance(data, (bytes, str)) and getattr(to, "path", False):
            return self.write_record_metadata(name, size)
        return own(self, name, data, size)

    writer.write_record = write_record
