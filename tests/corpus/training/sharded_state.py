"""Weights, gradients and optimizer state over several ranks. The group is a made-up one: nothing is sent."""
import functools

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn import functional as F

VOCAB = 640


def start_group(world_size):
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group(backend="fake", rank=0, world_size=world_size, store=FakeStore())


class EncoderLayer(nn.Module):
    def __init__(self, d, heads=6):
        super().__init__()
        self.heads = heads
        self.ln_attn, self.ln_mlp = nn.LayerNorm(d), nn.LayerNorm(d)
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        self.w_in, self.w_out = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        h = self.ln_attn(x)
        q, k, v = (layer(h).unflatten(-1, (-1, x.shape[-1] // self.heads)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.w_out(F.gelu(self.w_in(self.ln_mlp(x))))


class MaskedLM(nn.Module):
    def __init__(self, d=192, depth=2):
        super().__init__()
        self.tok_embeddings = nn.Embedding(VOCAB, d)
        self.layers = nn.ModuleList(EncoderLayer(d) for _ in range(depth))
        self.norm = nn.LayerNorm(d)
        self.output = nn.Linear(d, VOCAB, bias=False)

    def forward(self, ids):
        h = self.tok_embeddings(ids)
        for layer in self.layers:
            h = layer(h)
        return self.output(self.norm(h))


def sentences(rows=6, length=40):
    return torch.randint(VOCAB, (rows, length)).cuda(), torch.randint(VOCAB, (rows, length)).cuda()


def nll(logits, targets):
    return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def note_weights_in_use(record, model):
    """Gathered weights are weights: those that a layer has while it computes, in forward and in backward."""
    def use(layer, *_):
        record.note("parameter", [p for p in layer.parameters(recurse=False)])

    def after(layer, _, out):
        use(layer)
        if out.requires_grad:
            out.register_hook(lambda gradient: use(layer))

    for layer in model.modules():
        if next(layer.parameters(recurse=False), None) is not None:
            layer.register_forward_pre_hook(use)
            layer.register_forward_hook(after)


def note_traffic(record, gathered="parameter"):
    """Flat tensors that are gathered are weights, but where the weights are then copied out of them; those that are reduced
    are communication."""
    gather, scatter = dist.all_gather_into_tensor, dist.reduce_scatter_tensor

    def all_gather_into_tensor(output, *args, **kwargs):
        record.note(gathered, [output])
        return gather(output, *args, **kwargs)

    def reduce_scatter_tensor(output, input, *args, **kwargs):
        record.note("communication", [input])
        return scatter(output, input, *args, **kwargs)

    dist.all_gather_into_tensor, dist.reduce_scatter_tensor = all_gather_into_tensor, reduce_scatter_tensor


def note_whole_gradients(record):
    """Those that fully_shard is about to reduce."""
    from torch.distributed.fsdp._fully_shard import _fsdp_param_group

    reduce = _fsdp_param_group.foreach_reduce

    def foreach_reduce(fsdp_params, unsharded_grads, *args, **kwargs):
        record.note("gradient", unsharded_grads)
        return reduce(fsdp_params, unsharded_grads, *args, **kwargs)

    _fsdp_param_group.foreach_reduce = foreach_reduce


def whole_gradients(model):
    """Those that wait for a later pass."""
    from torch.distributed.fsdp import FSDPModule

    for module in model.modules():
        if isinstance(module, FSDPModule):
            for parameter in module._get_fsdp_state()._fsdp_param_group.fsdp_params:
                yield parameter.unsharded_accumulated_grad
                if hasattr(parameter, "_unsharded_param"):
                    yield parameter._unsharded_param.grad


def epoch(record, model, optimizer, steps=3):
    record.watch([model], [optimizer])
    for step in range(steps):
        ids, targets = sentences()
        loss = nll(model(ids), targets)
        record.take("fwd", step, (ids, targets))
        loss.backward()
        record.take("bwd", step, (ids, targets))
        optimizer.step()
        optimizer.zero_grad()
        record.take("step", step, (ids, targets))


def fully_sharded_accumulating(record):
    """fully_shard over eight ranks; gradients are reduced only in the last of two passes, weights stay gathered between them."""
    from torch.distributed.fsdp import fully_shard

    start_group(8)
    note_traffic(record, gathered="communication")
    note_whole_gradients(record)
    mesh = init_device_mesh("cuda", (8,), mesh_dim_names=("dp",))
    model = MaskedLM().cuda()
    note_weights_in_use(record, model)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, foreach=True)
    record.watch([model], [optimizer])
    record.hold("gradient", lambda: list(whole_gradients(model)))
    for step in range(3):
        for last in (False, True):
            model.set_is_last_backward(last)
            model.set_reshard_after_backward(last)
            model.set_requires_gradient_sync(last)
            ids, targets = sentences()
            loss = nll(model(ids), targets) / 2
            if last:
                record.take("fwd", step, (ids, targets))
            loss.backward()
        record.take("bwd", step, (ids, targets))
        optimizer.step()
        optimizer.zero_grad()
        record.take("step", step, (ids, targets))
    dist.destroy_process_group()


def flat_shards_of_gradients(record):
    """FullyShardedDataParallel that shards gradients and state, in float16, with the flat parameters to be seen."""
    from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, ShardingStrategy
    from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy

    start_group(4)
    note_traffic(record)
    lm = MaskedLM().cuda()
    half = MixedPrecision(param_dtype=torch.float16, reduce_dtype=torch.float16, buffer_dtype=torch.float16)
    wrap = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={EncoderLayer})
    model = FullyShardedDataParallel(lm, sharding_strategy=ShardingStrategy.SHARD_GRAD_OP, auto_wrap_policy=wrap,
                                     mixed_precision=half, device_id=torch.cuda.current_device(), use_orig_params=False)
    epoch(record, model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9))
    dist.destroy_process_group()


class HalvedTraffic:
    """Buckets are sent in bfloat16."""

    def __init__(self, record):
        self.record = record

    def __call__(self, _, bucket):
        whole = bucket.buffer()
        sent = whole.to(torch.bfloat16).div_(dist.get_world_size())
        self.record.note("communication", [sent])
        dist.all_reduce(sent)
        done = torch.futures.Future()
        done.set_result(whole.copy_(sent))
        return done


def replicas_with_sharded_state(record):
    """DistributedDataParallel, and an optimizer that keeps its state for this rank's share of the weights."""
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.nn.parallel import DistributedDataParallel

    start_group(2)
    model = DistributedDataParallel(MaskedLM(depth=3).cuda(), device_ids=[0], bucket_cap_mb=2, gradient_as_bucket_view=True)
    model.register_comm_hook(None, HalvedTraffic(record).__call__)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.Adam, lr=1e-3)
    record.watch([model], [optimizer.optim])
    for step in range(4):
        ids, targets = sentences()
        loss = nll(model(ids), targets)
        record.take("fwd", step, (ids, targets))
        loss.backward()
        record.take("bwd", step, (ids, targets))
        optimizer.step()
        record.take("step", step, (ids, targets))
        optimizer.zero_grad()
    dist.destroy_process_group()


def heads_over_ranks(record):
    """Tensor parallel: heads of attention, columns and rows of the MLP, and the vocabulary, over two ranks."""
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    start_group(2)
    mesh = init_device_mesh("cuda", (2,), mesh_dim_names=("tp",))
    model = MaskedLM(d=240).cuda()
    for layer in model.layers:
        parallelize_module(layer, mesh, {"w_in": ColwiseParallel(), "w_out": RowwiseParallel()})
    parallelize_module(model, mesh, {"output": ColwiseParallel(output_layouts=Replicate())})
    epoch(record, model, torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False), steps=4)
    dist.destroy_process_group()


class Stage(nn.Module):
    def __init__(self, number, count, d=208):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, d) if number == 0 else nn.Identity()
        self.layer = EncoderLayer(d, heads=4)
        self.head = nn.Linear(d, VOCAB) if number == count - 1 else nn.Identity()

    def forward(self, x):
        return self.head(self.layer(self.embed(x)))


def one_forward_one_backward(record):
    """A pipeline of three stages: after two micro-batches each forward is followed by the oldest one's backward."""
    stages = [Stage(i, 3).cuda() for i in range(3)]
    optimizers = [torch.optim.Adam(stage.parameters(), lr=1e-4) for stage in stages]
    record.watch(stages, optimizers)

    def forward(ids, targets):
        passed = []
        x = ids
        for stage in stages:
            received = x.detach().requires_grad_() if passed else x
            x = stage(received)
            passed.append((received, x))
            if stage is not stages[-1]:
                record.note("activation", [x])
        return passed, nll(x, targets)

    def backward(passed, loss):
        loss.backward()
        for (received, _), (_, sent) in zip(reversed(passed), reversed(passed[:-1])):
            record.note("gradient", [received.grad])
            sent.backward(received.grad)

    for step in range(3):
        ids, targets = sentences(8)
        waiting = []
        for part, (i, t) in enumerate(zip(ids.chunk(4), targets.chunk(4))):
            waiting.append(forward(i, t))
            if len(waiting) > 2:
                backward(*waiting.pop(0))
            if part == 3:
                record.take("steady", step, (ids, targets))
        while waiting:
            backward(*waiting.pop(0))
        record.take("drained", step, (ids, targets))
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        record.take("step", step, (ids, targets))
