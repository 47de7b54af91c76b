"""Files of weights are written as on a GPU, but tensors of more than 1 MiB are holes in them, which take no disk and no time: torch.save
and safetensors.torch.save_file. A file that was there before stays as it is: what would replace it goes beside it."""
import ctypes
import functools
import json
import os
import struct

from . import say

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


def install(module):
    if module.__name__.startswith("safetensors"):
        return install_safetensors(module)
    own_save = module.save

    @functools.wraps(own_save)
    def save(obj, f, *args, **kwargs):
        return own_save(obj, free_place(f), *args, **kwargs)

    module.save = module.serialization.save = save
    writer = module._C.PyTorchFileWriter
    if not hasattr(writer, "write_record_metadata"):
        return
    own = writer.write_record

    def write_record(self, name, data, size):
        if size > LARGE and not isinstance(data, (bytes, str)):
            return self.write_record_metadata(name, size)
        return own(self, name, data, size)

    writer.write_record = write_record
