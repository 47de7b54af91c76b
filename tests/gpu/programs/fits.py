"""Trainings of well-known models, for what they need on a GPU: fits.py NAME TRUTH, or --list.

Weights are random, inputs are of fixed shapes; five steps. TRUTH gets PyTorch's own counters and cuMemGetInfo, so that a run
without a GPU can be held against them."""
import contextlib
import json
import os
import pathlib
import sys

import torch
from torch import nn

STEPS = 5
if os.environ.get("VRAMTRACE_RUN"):  # over the stand-in, which has no cuDNN
    torch.backends.cudnn.enabled = False
    torch.backends.cuda.enable_cudnn_sdp(False)
LLAMA_1B = {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
            "vocab_size": 128256}
LLAMA_8B = {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
            "vocab_size": 128256}


def tokens(vocabulary, rows, length):
    return torch.randint(0, vocabulary, (rows, length), device="cuda")


def resnet50(rows=64):
    import torchvision

    model = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)
    images = torch.randn(rows, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    labels = torch.randint(0, 1000, (rows,), device="cuda")
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), lambda: nn.functional.cross_entropy(model(images), labels)


def vit(rows=64):
    import torchvision

    model = torchvision.models.vit_b_16().cuda()
    images, labels = torch.randn(rows, 3, 224, 224, device="cuda"), torch.randint(0, 1000, (rows,), device="cuda")
    return model, torch.optim.AdamW(model.parameters()), lambda: nn.functional.cross_entropy(model(images), labels)


def causal(model, rows, length, optimizer=torch.optim.AdamW):
    given = tokens(model.config.vocab_size, rows, length)
    chosen = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return model, optimizer(chosen, lr=1e-4), lambda: model(input_ids=given, labels=given).loss


def gpt2(rows=8, length=512, checkpointing=False):
    import transformers

    model = transformers.GPT2LMHeadModel(transformers.GPT2Config()).cuda().train()
    if checkpointing:
        model.gradient_checkpointing_enable()
    return causal(model, rows, length)


def bert(rows=32, length=128):
    import transformers

    model = transformers.BertForSequenceClassification(transformers.BertConfig(num_labels=2)).cuda().train()
    given, labels = tokens(30522, rows, length), torch.randint(0, 2, (rows,), device="cuda")
    return model, torch.optim.AdamW(model.parameters(), lr=2e-5), lambda: model(input_ids=given, labels=labels).loss


def t5(rows=16, length=256):
    import transformers

    model = transformers.T5ForConditionalGeneration(transformers.T5Config(decoder_start_token_id=0)).cuda().train()
    given = tokens(32128, rows, length)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-4), lambda: model(input_ids=given, labels=given).loss


def llama(settings, dtype=torch.bfloat16):
    import transformers

    default = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device("cuda"):
            return transformers.LlamaForCausalLM(transformers.LlamaConfig(**settings)).train()
    finally:
        torch.set_default_dtype(default)


class Adapted(nn.Module):
    """A linear layer that stays as it is, and a low-rank one beside it that learns."""

    def __init__(self, base, rank=16):
        super().__init__()
        self.base = base
        self.down = nn.Linear(base.in_features, rank, bias=False, device="cuda", dtype=base.weight.dtype)
        self.up = nn.Linear(rank, base.out_features, bias=False, device="cuda", dtype=base.weight.dtype)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


def lora(rows=1, length=1024):
    model = llama(LLAMA_8B)
    model.requires_grad_(False)
    for layer in model.model.layers:
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(layer.self_attn, name, Adapted(getattr(layer.self_attn, name)))
    return causal(model, rows, length)


AMP = {"amp": True}
TRAININGS = {  # name: what makes (model, optimizer, loss), with autocast or not
    "resnet50 64": (resnet50, {}), "resnet50 64 amp": (resnet50, AMP), "vit_b_16 64 amp": (vit, AMP),
    "gpt2 8x512": (gpt2, {}), "gpt2 8x1024 amp": (lambda: gpt2(8, 1024), AMP),
    "gpt2 8x1024 amp checkpointing": (lambda: gpt2(8, 1024, True), AMP), "bert 32x128": (bert, {}), "t5-small 16x256": (t5, {}),
    "llama 1B bf16 4x1024": (lambda: causal(llama(LLAMA_1B), 4, 1024), {}),
    "llama 1B bf16 SGD 4x1024": (lambda: causal(llama(LLAMA_1B), 4, 1024, torch.optim.SGD), {}),
    "llama 8B bf16 LoRA 1x1024": (lora, {})}


def main():
    if sys.argv[1] == "--list":
        return print(*TRAININGS, sep="\n")
    make, how = TRAININGS[sys.argv[1]]
    model, optimizer, loss = make()
    torch.cuda.reset_peak_memory_stats()
    for _ in range(STEPS):
        with torch.autocast("cuda", dtype=torch.bfloat16) if how else contextlib.nullcontext():
            value = loss()
        value.backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    pathlib.Path(sys.argv[2]).write_text(json.dumps({
        "parameters": sum(parameter.numel() for parameter in model.parameters()), "allocated": torch.cuda.max_memory_allocated(),
        "reserved": torch.cuda.max_memory_reserved(), "used": total - free, "end": torch.cuda.memory_allocated()}))


if __name__ == "__main__":
    main()
