"""Loads a model with llama.cpp and computes with it, by its C functions; prints at each mark what it says it has on the device.

    llama_script.py LIBRARIES MODEL     LIBRARIES: a folder; MODEL: a file to write a small model to"""
import ctypes
import json
import pathlib
import re
import sys

import gguf
import numpy

EMBEDDING, FEED_FORWARD, HEADS, LAYERS, VOCABULARY, CONTEXT = 256, 512, 4, 2, 320, 512
folder, model_file = pathlib.Path(sys.argv[1]), sys.argv[2]
api, truth, told = ctypes.CDLL(None), {}, []
driver = ctypes.CDLL("libcuda.so.1")


def write_model():
    writer, random = gguf.GGUFWriter(model_file, "llama"), numpy.random.default_rng(0)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(EMBEDDING)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(EMBEDDING // HEADS)
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("no_vocab")
    shapes = {"token_embd": (VOCABULARY, EMBEDDING), "output_norm": (EMBEDDING,), "output": (VOCABULARY, EMBEDDING)}
    for layer in range(LAYERS):
        shapes |= {f"blk.{layer}.{name}": shape for name, shape in {
            "attn_norm": (EMBEDDING,), "ffn_norm": (EMBEDDING,), "attn_q": (EMBEDDING, EMBEDDING), "attn_k": (EMBEDDING, EMBEDDING),
            "attn_v": (EMBEDDING, EMBEDDING), "attn_output": (EMBEDDING, EMBEDDING), "ffn_gate": (FEED_FORWARD, EMBEDDING),
            "ffn_up": (FEED_FORWARD, EMBEDDING), "ffn_down": (EMBEDDING, FEED_FORWARD)}.items()}
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", random.standard_normal(shape).astype(numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def library(name):
    return ctypes.CDLL(next(str(path) for path in folder.iterdir() if re.match(rf"lib{name}-[0-9a-f]{{8}}\.so", path.name)))


def function(of, name, result, *parameters):
    found = getattr(of, name)
    found.restype, found.argtypes = result, parameters
    return found


class Parameters(ctypes.Structure):
    """Of a model or a context: their fields differ by release, so these are its defaults, passed on as they came, with more behind."""
    _fields_ = [("words", ctypes.c_uint64 * 64)]


class Batch(ctypes.Structure):
    _fields_ = [("count", ctypes.c_int32)] + [(name, ctypes.c_void_p) for name in ("token", "embd", "pos", "n_seq", "seq", "logits")]


class Named(ctypes.Structure):
    """std::pair<std::string, ggml_tensor *>; the package is built with the string of the older C++ library, one pointer."""
    _fields_ = [("name", ctypes.c_char_p), ("tensor", ctypes.c_void_p)]


base, cpu, cuda, ggml, llama = map(library, ("ggml-base", "ggml-cpu", "ggml-cuda", "ggml", "llama"))
data = function(base, "ggml_get_data", ctypes.c_void_p, ctypes.c_void_p)
size = function(base, "ggml_nbytes", ctypes.c_size_t, ctypes.c_void_p)
registered = function(ggml, "ggml_backend_register", None, ctypes.c_void_p)
registered(function(cpu, "ggml_backend_cpu_reg", ctypes.c_void_p)())
registered(function(cuda, "ggml_backend_cuda_reg", ctypes.c_void_p)())
LOG = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
keep_log = LOG(lambda level, text, context: told.append(text.decode()))
function(llama, "llama_log_set", None, LOG, ctypes.c_void_p)(keep_log, None)
tensors = function(llama, "_Z29llama_internal_get_tensor_mapPK11llama_model", ctypes.c_void_p, ctypes.c_void_p)


def weights(model):
    """Name, address and bytes of each, as llama.cpp keeps them: std::vector<Named>."""
    begin, end = ctypes.cast(tensors(model), ctypes.POINTER(ctypes.c_size_t))[:2]
    pairs = (Named * ((end - begin) // ctypes.sizeof(Named))).from_address(begin)
    return {pair.name.decode(): [data(pair.tensor), size(pair.tensor)] for pair in pairs}


def load_model():
    defaults = function(llama, "llama_model_default_params", Parameters)()
    return function(llama, "llama_model_load_from_file", ctypes.c_void_p, ctypes.c_char_p, Parameters)(model_file.encode(), defaults)


def make_context(model):
    defaults = function(llama, "llama_context_default_params", Parameters)()
    return function(llama, "llama_init_from_model", ctypes.c_void_p, ctypes.c_void_p, Parameters)(model, defaults)


def decode(context):
    tokens = (ctypes.c_int32 * 4)(1, 2, 3, 4)
    batch = function(llama, "llama_batch_get_one", Batch, ctypes.c_void_p, ctypes.c_int32)(ctypes.addressof(tokens), len(tokens))
    return function(llama, "llama_decode", ctypes.c_int32, ctypes.c_void_p, Batch)(context, batch)


def take(name, model=None, context=None):
    if hasattr(api, "vramtrace_mark"):
        api.vramtrace_mark(name.encode())
    in_use = function(driver, "standin_allocation_bytes", ctypes.c_uint64, ctypes.c_int)(0) \
        if hasattr(driver, "standin_allocation_bytes") else None
    sizes = re.findall(r"CUDA\d+ +(model|KV|compute) buffer size = +([\d.]+) MiB", "".join(told))
    truth[name] = {"weights": weights(model) if model else {}, "in_use": in_use, "sizes": dict(sizes),
                   "cells": function(llama, "llama_n_ctx", ctypes.c_uint32, ctypes.c_void_p)(context) if context else 0}


write_model()
for turn in "first", "second":
    told.clear()
    model = load_model()
    take(f"{turn} model", model)
    context = make_context(model)
    take(f"{turn} context", model, context)
    assert [decode(context) for _ in range(3)] == [0, 0, 0]
    take(f"{turn} decoded", model, context)
    function(llama, "llama_free", None, ctypes.c_void_p)(context)
    function(llama, "llama_model_free", None, ctypes.c_void_p)(model)
    told.clear()
    take(f"{turn} closed")
print(json.dumps(truth))
