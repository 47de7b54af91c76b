"""Weights in fewer bits than they are computed in, adapters on top of them, and experts that come when they are needed."""
import math

import torch
from torch import nn
from torch.nn import functional

import models
from nets import STEPS, make_token_batch

WIDTH = 256


def token_loss(logits, targets):
    return functional.cross_entropy(logits.flatten(0, -2).float(), targets)


def fit(record, model, optimizer, modules=None, steps=STEPS, loss_of=None):
    record.watch(modules or [model], [optimizer])
    for step in range(steps):
        tokens, targets = make_token_batch()
        loss = loss_of(tokens, targets) if loss_of else token_loss(model(tokens), targets)
        record.take("fwd", step, (tokens, targets))
        loss.backward()
        record.take("bwd", step, (tokens, targets))
        optimizer.step()
        record.take("step", step, (tokens, targets))
        optimizer.zero_grad(set_to_none=True)


def trained(model):
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


# ---- Four bits, packed, as bitsandbytes does it ----


class Dequantized(torch.autograd.Function):
    """x @ W.T with W unpacked for the product only; nothing but the packed form is kept."""

    @staticmethod
    def forward(context, inputs, packed, scales, shape):
        context.packed, context.scales, context.shape = packed, scales, shape
        return functional.linear(inputs, unpacked(packed, scales, shape, inputs.dtype))

    @staticmethod
    def backward(context, gradient):
        return gradient @ unpacked(context.packed, context.scales, context.shape, gradient.dtype), None, None, None


def unpacked(packed, scales, shape, dtype):
    low, high = (packed & 15).to(dtype), (packed >> 4).to(dtype)
    values = torch.stack([low, high], -1).view(-1, 64) - 8
    return (values * scales.to(dtype)[:, None]).view(shape)


class Linear4bit(nn.Module):
    """Quantized when it is moved to the device; weight and scales are a parameter and a plain attribute."""

    def __init__(self, weight):
        super().__init__()
        self.shape = weight.shape
        self.weight = nn.Parameter(weight.detach(), requires_grad=False)
        self.scales = None

    def _apply(self, function, recurse=True):
        super()._apply(function, recurse)
        if self.weight.is_cuda and self.weight.is_floating_point():
            blocks = self.weight.data.view(-1, 64)
            scales = blocks.abs().amax(1).clamp(min=1e-8) / 7
            levels = (blocks / scales[:, None]).round().clamp(-8, 7).add(8).to(torch.uint8).view(-1, 2)
            self.weight = nn.Parameter(levels[:, 0] | levels[:, 1] << 4, requires_grad=False)
            self.scales = scales
        return self

    def forward(self, inputs):
        return Dequantized.apply(inputs, self.weight, self.scales, self.shape)


class Adapter(nn.Module):
    def __init__(self, base, inputs, outputs, rank=8):
        super().__init__()
        self.base, self.dropout = base, nn.Dropout(0.05)
        self.lora_A, self.lora_B = nn.Linear(inputs, rank, bias=False), nn.Linear(rank, outputs, bias=False)

    def forward(self, hidden):
        return self.base(hidden) + self.lora_B(self.lora_A(self.dropout(hidden))) * 2


class QuantizedBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH).requires_grad_(False)
        self.up = Adapter(Linear4bit(torch.randn(4 * WIDTH, WIDTH)), WIDTH, 4 * WIDTH)
        self.down = Adapter(Linear4bit(torch.randn(WIDTH, 4 * WIDTH)), 4 * WIDTH, WIDTH)

    def forward(self, hidden):
        return hidden + self.down(functional.gelu(self.up(self.norm(hidden))))


class QuantizedModel(nn.Module):
    def __init__(self, depth=3, words=1000):
        super().__init__()
        self.embed = nn.Embedding(words, WIDTH).requires_grad_(False)
        self.blocks = nn.ModuleList(QuantizedBlock() for _ in range(depth))
        self.head = nn.Linear(WIDTH, words, bias=False).requires_grad_(False)

    def forward(self, tokens):
        hidden = self.embed(tokens)
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(hidden)


class WithScales:
    """A model whose scales are attributes: they are a part of the quantized weights."""

    def __init__(self, model):
        self.model = model

    def parameters(self):
        yield from self.model.parameters()
        for module in self.model.modules():
            if isinstance(module, Linear4bit):
                yield module.scales

    def buffers(self):
        return self.model.buffers()


def four_bit_lora(record):
    """QLoRA: weights of four bits that never change, and adapters that learn."""
    model = QuantizedModel().cuda()
    fit(record, model, torch.optim.AdamW(trained(model)), [WithScales(model)])


# ---- Eight bits ----


class Int8Linear(nn.Module):
    """Quantized from a layer that is on the device; the float weight goes then (as quantize(model) helpers do)."""

    def __init__(self, linear):
        super().__init__()
        weight = linear.weight.data
        scale = weight.abs().amax(1, keepdim=True) / 127
        self.register_buffer("weight", (weight / scale.clamp(min=1e-9)).round().to(torch.int8))
        self.register_buffer("scale", scale)
        self.bias = linear.bias

    def forward(self, hidden):
        return functional.linear(hidden, self.weight.to(hidden.dtype) * self.scale.to(hidden.dtype), self.bias)


def quantize(model, skip=("head",)):
    for name, child in list(model.named_children()):
        if isinstance(child, nn.Linear) and name not in skip:
            setattr(model, name, Int8Linear(child))
        else:
            quantize(child, skip)
    return model


class Classifier(nn.Module):
    def __init__(self, depth=3, words=1000, width=WIDTH):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.layers = nn.Sequential(*(nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
                                      for _ in range(depth)))
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        return self.head(self.layers(self.embed(tokens)))


def eight_bit_on_device(record):
    """A trained model is quantized on the device, and its head is tuned."""
    model = quantize(Classifier().cuda().requires_grad_(False))
    model.head.requires_grad_(True)
    fit(record, model, torch.optim.AdamW(model.head.parameters()))


def eight_bit_inference(record):
    """The same without training."""
    model = quantize(Classifier().cuda().eval().requires_grad_(False))
    record.watch([model])
    for step in range(STEPS):
        tokens, targets = make_token_batch()
        with torch.no_grad(), record.free_choice():
            best = model(tokens).argmax(-1)
            record.take("answer", step, (tokens, targets))
    del best


class Int8Tensor(torch.Tensor):
    """A weight as torchao keeps it: a tensor that is none, round the two that it consists of."""

    @staticmethod
    def __new__(cls, levels, scale):
        return torch.Tensor._make_wrapper_subclass(cls, levels.shape, dtype=scale.dtype, device=levels.device)

    def __init__(self, levels, scale):
        self.levels, self.scale = levels, scale

    def __tensor_flatten__(self):
        return ["levels", "scale"], None

    @classmethod
    def __tensor_unflatten__(cls, inner, context, size, stride):
        return cls(inner["levels"], inner["scale"])

    @classmethod
    def of(cls, weight):
        scale = weight.abs().amax(1, keepdim=True) / 127
        return cls((weight / scale.clamp(min=1e-9)).round().to(torch.int8), scale)

    def plain(self):
        return self.levels.to(self.scale.dtype) * self.scale

    @classmethod
    def __torch_dispatch__(cls, function, kinds, arguments=(), options=None):
        if function in (torch.ops.aten.detach.default, torch.ops.aten.alias.default):
            return cls(arguments[0].levels, arguments[0].scale)
        plain = torch.utils._pytree.tree_map_only(cls, cls.plain, (arguments, options or {}))
        return function(*plain[0], **plain[1])


def swap_weights(model):
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.weight = nn.Parameter(Int8Tensor.of(module.weight.data), requires_grad=False)


def eight_bit_subclass(record):
    """Weights are tensor subclasses with inner tensors (torchao); the head is plain and is tuned."""
    model = Classifier().bfloat16().cuda().requires_grad_(False)
    swap_weights(model.layers)
    model.head.requires_grad_(True)
    fit(record, model, torch.optim.AdamW(model.head.parameters()), [Inner(model)])


class Inner:
    """A model with the inner tensors of its subclasses."""

    def __init__(self, model):
        self.model = model

    def parameters(self):
        for parameter in self.model.parameters():
            names = parameter.__tensor_flatten__()[0] if hasattr(parameter, "__tensor_flatten__") else ()
            yield from (getattr(parameter, name) for name in names) if names else [parameter]

    def buffers(self):
        return self.model.buffers()


# ---- fp8, with scales that follow the values ----


class Float8Linear(nn.Linear):
    """Weights and inputs are cast to float8 for the product; the highest values of late steps are kept (delayed scaling)."""

    def __init__(self, inputs, outputs, history=16):
        super().__init__(inputs, outputs, bias=False)
        self.register_buffer("highest", torch.zeros(2, history))

    def forward(self, hidden):
        with torch.no_grad():
            self.highest.copy_(self.highest.roll(1, 1))
            self.highest[0, 0], self.highest[1, 0] = hidden.abs().max(), self.weight.abs().max()
        return Float8Product.apply(hidden, self.weight)


class Float8Product(torch.autograd.Function):
    @staticmethod
    def forward(context, hidden, weight):
        small, small_weight = hidden.to(torch.float8_e4m3fn), weight.to(torch.float8_e4m3fn)
        context.save_for_backward(small, small_weight)
        return small.to(hidden.dtype) @ small_weight.to(hidden.dtype).T

    @staticmethod
    def backward(context, gradient):
        small, small_weight = context.saved_tensors
        gradient = gradient.to(torch.float8_e5m2).to(gradient.dtype)
        flat = gradient.flatten(0, -2)
        return gradient @ small_weight.to(gradient.dtype), flat.T @ small.flatten(0, -2).to(gradient.dtype)


class Float8Model(nn.Module):
    def __init__(self, depth=3, words=1000):
        super().__init__()
        self.embed = nn.Embedding(words, WIDTH)
        self.layers = nn.ModuleList(nn.ModuleList([Float8Linear(WIDTH, 2 * WIDTH), Float8Linear(2 * WIDTH, WIDTH)])
                                    for _ in range(depth))
        self.head = nn.Linear(WIDTH, words)

    def forward(self, tokens):
        hidden = self.embed(tokens)
        for up, down in self.layers:
            hidden = hidden + down(functional.relu(up(hidden)))
        return self.head(hidden)


def float8_training(record):
    """Products in float8 with delayed scaling, as TransformerEngine does it."""
    model = Float8Model().cuda()
    fit(record, model, torch.optim.AdamW(model.parameters()))


def peft_on_eight_bit(record):
    """peft's LoRA on a model whose layers are quantized by the script's own class."""
    import peft

    model = Classifier().requires_grad_(False)
    config = peft.LoraConfig(r=8, target_modules=["layers.0.0", "layers.1.0", "layers.2.0"])
    model = peft.get_peft_model(model, config).cuda()
    for module in model.modules():
        if hasattr(module, "base_layer"):
            module.base_layer = Int8Linear(module.base_layer)
    fit(record, model, torch.optim.AdamW(trained(model)))


class Adam8bit(torch.optim.Optimizer):
    """State of eight bits with a scale for each block of 256 values (bitsandbytes)."""

    def __init__(self, params, lr=1e-3, block=256):
        super().__init__(params, {"lr": lr})
        self.block = block

    def pack(self, values):
        blocks = functional.pad(values.flatten(), (0, -values.numel() % self.block)).view(-1, self.block)
        scale = blocks.abs().amax(1, keepdim=True).clamp(min=1e-12)
        return (blocks / scale * 127).round().to(torch.int8), scale

    def unpack(self, levels, scale, like):
        return (levels.float() * scale / 127).flatten()[: like.numel()].view_as(like)

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                for name, rate, value in (("first", 0.1, parameter.grad), ("second", 0.01, parameter.grad.square())):
                    if name not in state:
                        state[name], state[name + "_scale"] = self.pack(torch.zeros_like(parameter))
                    moment = self.unpack(state[name], state[name + "_scale"], parameter).lerp_(value, rate)
                    levels, scale = self.pack(moment)
                    state[name].copy_(levels)
                    state[name + "_scale"].copy_(scale)
                    state["last"] = 1
                parameter.add_(moment.sqrt(), alpha=-group["lr"])


def eight_bit_optimizer(record):
    """An optimizer whose state is packed."""
    model = Classifier().cuda()
    fit(record, model, Adam8bit(model.parameters()))


class Streamed(nn.Module):
    """Layers whose weights live on the host and come to the device for their forward alone."""

    def __init__(self, layers):
        super().__init__()
        self.layers, self.there = layers, {}
        for layer in layers:
            layer.register_forward_pre_hook(self.fetch)
            layer.register_forward_hook(self.drop)

    def fetch(self, layer, inputs):
        self.there[layer] = {name: parameter.data for name, parameter in layer.named_parameters()}
        for parameter in layer.parameters():
            parameter.data = parameter.data.to("cuda", non_blocking=True)

    def drop(self, layer, inputs, output):
        for name, parameter in layer.named_parameters():
            parameter.data = self.there[layer][name]
        return output

    def forward(self, hidden):
        for layer in self.layers:
            hidden = layer(hidden)
        return hidden


def weights_streamed(record):
    """Inference of a model whose layers come to the device one at a time (accelerate's cpu_offload)."""
    layers = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)) for _ in range(4))
    model = Streamed(layers.requires_grad_(False)).eval()
    head = nn.Linear(WIDTH, 1000).cuda()
    record.watch([model, head])
    for layer in layers:
        layer.register_forward_pre_hook(lambda layer, inputs: record.note("parameter", layer.parameters()))
    with torch.no_grad(), record.free_choice():
        for step in range(STEPS):
            (inputs,) = models.on_device(torch.randn(64, WIDTH))
            answers = head(model(inputs))
            record.take("answer", step, (inputs,))
    del answers


# ---- Experts ----


class Experts(nn.Module):
    """Top-2 routing; an expert that gets no tokens does not run."""

    def __init__(self, width=WIDTH, count=6):
        super().__init__()
        self.router = nn.Linear(width, count, bias=False)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))
                                     for _ in range(count))
        self.awake = 2

    def forward(self, hidden):
        rows = hidden.reshape(-1, hidden.shape[-1])
        weights = self.router(rows).softmax(-1)
        results = torch.zeros_like(rows)
        share = len(rows) // self.awake
        for number, expert in enumerate(self.experts[: self.awake]):
            chosen = torch.arange(number * share, (number + 1) * share, device=rows.device)
            results = results.index_add(0, chosen, expert(rows[chosen]) * weights[chosen, number, None])
        return results.view_as(hidden)


class ExpertModel(nn.Module):
    def __init__(self, depth=2, words=500):
        super().__init__()
        self.embed = nn.Embedding(words, WIDTH)
        self.layers = nn.ModuleList(Experts() for _ in range(depth))
        self.head = nn.Linear(WIDTH, words)

    def forward(self, tokens):
        hidden = self.embed(tokens)
        for layer in self.layers:
            hidden = hidden + layer(functional.layer_norm(hidden, hidden.shape[-1:]))
        return self.head(hidden)


def late_experts(record):
    """Experts get their first tokens, and so their first gradient and state, in later steps."""
    model = ExpertModel().cuda()

    def loss_of(tokens, targets):
        for layer in model.layers:
            layer.awake = min(layer.awake + 1, len(layer.experts))
        return token_loss(model(tokens), targets)

    fit(record, model, torch.optim.AdamW(model.parameters()), steps=5, loss_of=loss_of)


class Switch(nn.Module):
    """One batched weight for all experts, tokens sorted into fixed places (capacity)."""

    def __init__(self, width=WIDTH, count=4, capacity=160):
        super().__init__()
        self.gate, self.capacity, self.count = nn.Linear(width, count), capacity, count
        self.up = nn.Parameter(torch.randn(count, width, 2 * width) / math.sqrt(width))
        self.down = nn.Parameter(torch.randn(count, 2 * width, width) / math.sqrt(2 * width))
        self.register_buffer("load", torch.zeros(count))

    def forward(self, hidden):
        rows = hidden.flatten(0, 1)
        scores = self.gate(rows).softmax(-1)
        best = scores.argmax(-1)
        with torch.no_grad():
            self.load.mul_(0.9).add_(functional.one_hot(best.clamp(0, self.count - 1), self.count).float().mean(0))
        slots = rows.new_zeros(self.count, self.capacity, rows.shape[-1])
        places = torch.arange(len(rows), device=rows.device) % self.capacity
        slots = slots.index_put((best.clamp(0, self.count - 1), places), rows)
        mixed = torch.bmm(functional.gelu(torch.bmm(slots, self.up)), self.down)
        return mixed[best.clamp(0, self.count - 1), places].view_as(hidden) * scores.amax(-1).view(*hidden.shape[:2], 1)


class SwitchModel(nn.Module):
    def __init__(self, words=500):
        super().__init__()
        self.embed = nn.Embedding(words, WIDTH)
        self.layers = nn.ModuleList(Switch() for _ in range(2))
        self.head = nn.Linear(WIDTH, words)

    def forward(self, tokens):
        hidden = self.embed(tokens)
        for layer in self.layers:
            hidden = hidden + layer(hidden)
        return self.head(hidden)


def switch_layers(record):
    """Experts as one batched weight, with capacities and a running load."""
    model = SwitchModel().cuda()
    fit(record, model, torch.optim.AdamW(model.parameters()))
