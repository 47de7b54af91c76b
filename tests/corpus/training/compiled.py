"""What runs through something that is not plain eager mode: activations that wait in host memory, checkpoints of every
kind, compiled models, CUDA graphs."""
import collections
import os

import torch
import torch.utils.checkpoint
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import models
from nets import STEPS, make_batch


def epoch(record, model, optimizer, run, batches=STEPS, batch=make_batch):
    """RUN(inputs, targets) gives the loss."""
    record.watch([model], [optimizer])
    for number in range(batches):
        inputs, targets = batch()
        optimizer.zero_grad()
        loss = run(inputs, targets)
        record.take("fwd", number, (inputs, targets))
        loss.backward()
        record.take("bwd", number, (inputs, targets))
        optimizer.step()
        record.take("step", number, (inputs, targets))


class FeedForward(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.gate, self.down = nn.Linear(width, inner), nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, hidden):
        normed = self.norm(hidden)
        return hidden + self.down(functional.silu(self.gate(normed)) * self.up(normed))


class Tower(nn.Module):
    """Blocks of which each runs through WRAP(block, hidden)."""

    def __init__(self, wrap=None, depth=4, width=256):
        super().__init__()
        self.blocks = nn.ModuleList(FeedForward(width, 2 * width) for _ in range(depth))
        self.head = nn.Linear(width, 32)
        self.wrap = wrap or (lambda block, hidden: block(hidden))

    def forward(self, hidden):
        for block in self.blocks:
            hidden = self.wrap(block, hidden)
        return self.head(hidden)


def adamw(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


def wide_batch(rows=192):
    return models.on_device(torch.randn(rows, 256), torch.zeros(rows, dtype=torch.long))


def simple(record, model, forward=None, batch=wide_batch, batches=STEPS):
    run = model if forward is None else forward
    epoch(record, model, adamw(model), lambda inputs, targets: functional.cross_entropy(run(inputs), targets),
          batches, batch)


# ---- Activations that wait in host memory ----


def saved_on_cpu(record, pinned=False):
    """torch.autograd.graph.save_on_cpu round the forward: the device keeps none of what backward needs."""
    model = Tower().cuda()

    def forward(inputs):
        with torch.autograd.graph.save_on_cpu(pin_memory=pinned):
            return model(inputs)

    watch_unpacked(record)
    simple(record, model, forward)


def saved_on_cpu_pinned(record):
    """The same in pinned memory."""
    saved_on_cpu(record, True)


def watch_unpacked(record):
    """save_on_cpu makes its hooks where it is entered."""
    original = saved_tensors_hooks.__init__

    def watched(hooks, pack, unpack):
        if isinstance(hooks, torch.autograd.graph.save_on_cpu):
            inner = unpack

            def unpack(packed):
                tensor = inner(packed)
                record.note("activation", [tensor])
                return tensor

        original(hooks, pack, unpack)

    saved_tensors_hooks.__init__ = watched


class Offloader:
    """Copies what autograd saves to the host on a stream of its own, keeps the newest few on the device, and fetches
    ahead of need (in the manner of torchtune and TransformerEngine)."""

    def __init__(self, record, least_bytes=64 << 10, on_device=2):
        self.record, self.least_bytes, self.on_device = record, least_bytes, on_device
        self.stream = torch.cuda.Stream()
        self.held, self.host, self.fetched, self.count = collections.OrderedDict(), {}, {}, 0

    def pack(self, tensor):
        if tensor.numel() * tensor.element_size() < self.least_bytes or isinstance(tensor, nn.Parameter):
            self.record.note("activation", [tensor])
            return tensor
        ticket, self.count = self.count, self.count + 1
        self.record.note("activation", [tensor])
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            copy.copy_(tensor, non_blocking=True)
        self.host[ticket] = copy
        self.held[ticket] = tensor
        while len(self.held) > self.on_device:
            self.held.popitem(last=False)
        return ticket

    def prefetch(self, ticket):
        if ticket in self.host and ticket not in self.fetched and ticket not in self.held:
            with torch.cuda.stream(self.stream):
                self.fetched[ticket] = self.host[ticket].to("cuda", non_blocking=True)
            self.record.note("activation", [self.fetched[ticket]])

    def unpack(self, packed):
        if isinstance(packed, torch.Tensor):
            return packed
        self.prefetch(packed)
        for ahead in range(packed - 1, packed - 3, -1):
            self.prefetch(ahead)
        torch.cuda.current_stream().wait_stream(self.stream)
        self.host.pop(packed, None)
        tensor = self.held.pop(packed, None)
        return self.fetched.pop(packed) if tensor is None else tensor


def offloaded_with_prefetch(record):
    """Activations leave and come back on a stream of their own, ahead of backward."""
    model, offloader = Tower().cuda(), Offloader(record)

    def forward(inputs):
        with saved_tensors_hooks(offloader.pack, offloader.unpack):
            return model(inputs)

    simple(record, model, forward)


# ---- Checkpoints ----


def selective_checkpoint(record):
    """Checkpoints that keep the results of matrix products and compute the rest again."""
    from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

    def policy(context, operator, *arguments, **options):
        keep = operator in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
        return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE

    watch_kept(record)
    simple(record, Tower(lambda block, hidden: checkpoint(
        block, hidden, use_reentrant=False,
        context_fn=lambda: create_selective_checkpoint_contexts(policy))).cuda())


def watch_kept(record):
    """What a selective checkpoint keeps is put aside in wrappers of its own."""
    wrapper = torch.utils.checkpoint._VersionWrapper
    original = wrapper.__init__

    def watched(self, value):
        record.note("activation", [value] if isinstance(value, torch.Tensor) else [])
        original(self, value)

    wrapper.__init__ = watched


def nested_checkpoints(record):
    """A checkpoint of two halves that are checkpoints of blocks."""
    model = Tower().cuda()

    def half(first, last):
        def run(hidden):
            for block in model.blocks[first:last]:
                hidden = checkpoint(block, hidden, use_reentrant=False)
            return hidden

        return run

    def forward(inputs):
        hidden = inputs
        for first in (0, 2):
            hidden = checkpoint(half(first, first + 2), hidden, use_reentrant=False)
        return model.head(hidden)

    simple(record, model, forward)


class Recomputed(torch.autograd.Function):
    """A checkpoint as libraries before PyTorch's own wrote it (fairscale, Megatron)."""

    @staticmethod
    def forward(context, function, dummy, *inputs):
        context.function, context.autocast = function, torch.is_autocast_enabled()
        context.save_for_backward(*inputs)
        with torch.no_grad():
            return function(*inputs)

    @staticmethod
    def backward(context, gradient):
        inputs = [tensor.detach().requires_grad_(tensor.requires_grad) for tensor in context.saved_tensors]
        with torch.enable_grad(), torch.autocast("cuda", torch.bfloat16, enabled=context.autocast):
            output = context.function(*inputs)
        torch.autograd.backward(output, gradient)
        return (None, None, *(tensor.grad for tensor in inputs))


def checkpoint_function_of_library(record):
    """The older way: an autograd function that runs its part again and goes backward through it."""
    dummy = torch.ones(1, requires_grad=True)
    simple(record, Tower(lambda block, hidden: Recomputed.apply(block, dummy, hidden)).cuda())


def checkpoint_offloaded(record):
    """Checkpoints whose inputs wait in host memory: both at once, as for long sequences."""
    watch_unpacked(record)
    host = torch.autograd.graph.save_on_cpu

    def wrap(block, hidden):
        with host(pin_memory=True):
            return checkpoint(block, hidden, use_reentrant=False)

    simple(record, Tower(wrap).cuda())


def checkpoint_sequential(record):
    """torch.utils.checkpoint.checkpoint_sequential, in segments, under autocast."""
    stack = nn.Sequential(*(FeedForward(256, 512) for _ in range(6)), nn.Linear(256, 32)).cuda()

    def forward(inputs):
        with torch.autocast("cuda", torch.bfloat16):
            return torch.utils.checkpoint.checkpoint_sequential(stack, 3, inputs, use_reentrant=False)

    simple(record, stack, forward)


# ---- torch.compile ----


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.joined, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, hidden):
        queries, keys, values = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                                 for part in self.joined(hidden).chunk(3, -1))
        mixed = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Language(nn.Module):
    def __init__(self, words=1000, width=128, depth=2):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(64, width)
        self.attentions = nn.ModuleList(Attention(width, 4) for _ in range(depth))
        self.feeds = nn.ModuleList(FeedForward(width, 4 * width) for _ in range(depth))
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        hidden = self.words(tokens) + self.places.weight[: tokens.shape[1]]
        for attention, feed in zip(self.attentions, self.feeds):
            hidden = feed(hidden + attention(hidden))
        return self.head(hidden).flatten(0, 1)


def words_batch():
    return models.on_device(torch.zeros(8, 64, dtype=torch.long), torch.zeros(8 * 64, dtype=torch.long))


def compiler_settings(record):
    """Its caches beside the truth, and its worker processes not needed."""
    import torch._inductor.config as settings

    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(os.path.dirname(record.path), "inductor")
    settings.compile_threads = 1


def inductor(record):
    """A language model through torch.compile with inductor and triton."""
    compiler_settings(record)
    model = Language().cuda()
    simple(record, model, torch.compile(model), words_batch)


def inductor_step(record):
    """Loss and optimizer compiled too, under autocast, with a compiled function instead of a module."""
    compiler_settings(record)
    model = Tower(depth=2).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)

    @torch.compile
    def loss_of(inputs, targets):
        with torch.autocast("cuda", torch.bfloat16):
            return functional.cross_entropy(model(inputs), targets)

    epoch(record, model, optimizer, loss_of, STEPS, wide_batch)


def inductor_by_block(record):
    """Each block compiled for itself, with a checkpoint round it (as trainers of large models do)."""
    compiler_settings(record)
    model = Tower(lambda block, hidden: checkpoint(block, hidden, use_reentrant=False), depth=3).cuda()
    for block in model.blocks:
        block.compile()
    simple(record, model)


def aot_eager_checkpointed(record):
    """aot_eager of a model that checkpoints its blocks: the checkpoint becomes part of the graph."""
    model = Tower(lambda block, hidden: checkpoint(block, hidden, use_reentrant=False), depth=3).cuda()
    simple(record, model, torch.compile(model, backend="aot_eager"))


# ---- CUDA graphs ----


def graphed_step(record):
    """Forward, backward and optimizer in one graph, as PyTorch's manual shows it: replays allocate nothing."""
    model = Tower(depth=2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    inputs, targets = wide_batch()
    record.watch([model], [optimizer])
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for step in range(3):
            optimizer.zero_grad(set_to_none=True)
            functional.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
            record.take("warm", step, (inputs, targets))
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
    record.take("captured", 3, (inputs, targets))
    for step in range(4, 8):
        fresh, wanted = wide_batch()
        inputs.copy_(fresh)
        targets.copy_(wanted)
        graph.replay()
        record.take("replay", step, (inputs, targets, fresh, wanted))


class GraphedTrainer:
    """Forward and backward in a graph; scaling, clipping and the optimizer stay outside of it."""

    def __init__(self, model, rows=192):
        self.model, self.graph = model, torch.cuda.CUDAGraph()
        self.inputs = torch.zeros(rows, 256, device="cuda")
        self.targets = torch.zeros(rows, dtype=torch.long, device="cuda")
        self.loss = None

    def run(self):
        self.loss = functional.cross_entropy(self.model(self.inputs), self.targets)
        self.loss.backward()

    def capture(self):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.run()
        torch.cuda.current_stream().wait_stream(stream)
        for parameter in self.model.parameters():
            parameter.grad = None
        with torch.cuda.graph(self.graph):
            self.run()

    def __call__(self, inputs, targets):
        self.inputs.copy_(inputs)
        self.targets.copy_(targets)
        self.graph.replay()
        return self.loss


def graph_without_optimizer(record):
    """A graph of forward and backward, and an eager Adam that makes its state after the capture."""
    model = Tower(depth=2).cuda()
    optimizer = adamw(model)
    trainer = GraphedTrainer(model)
    record.watch([model], [optimizer])
    trainer.capture()
    for step in range(4):
        batch = wide_batch()
        trainer(*batch)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        record.take("replay", step, (trainer.inputs, trainer.targets, batch))
        optimizer.step()
        record.take("step", step, (trainer.inputs, trainer.targets, batch))


def graphed_trunk(record):
    """torch.cuda.make_graphed_callables for the trunk; head, loss and optimizer are eager."""
    trunk, head = nn.Sequential(*(FeedForward(256, 512) for _ in range(3))).cuda(), nn.Linear(256, 32).cuda()
    model = nn.ModuleList([trunk, head])
    optimizer = torch.optim.AdamW(model.parameters())
    record.watch([model], [optimizer])
    sample = torch.randn(192, 256, device="cuda", requires_grad=True)
    graphed = torch.cuda.make_graphed_callables(trunk, (sample,))
    for step in range(STEPS):
        inputs, targets = wide_batch()
        optimizer.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(head(graphed(inputs.requires_grad_())), targets)
        record.take("fwd", step, (inputs, targets, sample))
        loss.backward()
        record.take("bwd", step, (inputs, targets, sample))
        optimizer.step()
        record.take("step", step, (inputs, targets, sample))


def graphed_inference(record):
    """A graph for each batch size, in one shared pool, as inference servers keep them."""
    model = Tower(depth=2).cuda().eval()
    record.watch([model])
    pool, graphs = torch.cuda.graph_pool_handle(), {}
    with torch.inference_mode(), record.free_choice():
        for rows in (256, 64, 16):
            inputs = torch.zeros(rows, 256, device="cuda")
            model(inputs)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                outputs = model(inputs)
            graphs[rows] = graph, inputs, outputs
        kept = [inputs for _, inputs, _ in graphs.values()]
        for step in range(4):
            rows = (16, 64, 256, 64)[step]
            graph, inputs, outputs = graphs[rows]
            inputs.copy_(torch.randn(rows, 256))
            graph.replay()
            answers = outputs.clone()
            record.take("answer", step, kept)
        del answers


def reduced_overhead(record):
    """torch.compile(mode="reduce-overhead"): inductor's CUDA graph trees."""
    compiler_settings(record)
    model = Tower(depth=2).cuda()
    optimizer = adamw(model)
    compiled = torch.compile(model, mode="reduce-overhead")

    def run(inputs, targets):
        torch.compiler.cudagraph_mark_step_begin()
        return functional.cross_entropy(compiled(inputs), targets)

    epoch(record, model, optimizer, run, 5, wide_batch)
