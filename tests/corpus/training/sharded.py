"""Models that several processes share: sharded parameters, gathered copies, what is sent. The process group is PyTorch's
fake one: this process is the first of several, whose messages arrive at once, so its shards are real shards."""
import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

import models
from nets import STEPS, begin_process_group, end_process_group, make_batch, train
from training.gradients import Held


@contextlib.contextmanager
def one_of(world_size):
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=0, world_size=world_size, store=FakeStore())
    yield
    dist.destroy_process_group()


def after(owner, name, noted):
    """Calls NOTED with the result and the arguments of each call of a method."""
    original = getattr(owner, name)

    def wrapped(*arguments, **options):
        result = original(*arguments, **options)
        noted(result, *arguments)
        return result

    setattr(owner, name, wrapped)


def watch_fsdp(record):
    """What FSDP itself says it gathers, sends and receives."""
    from torch.distributed.fsdp import _flat_param

    def sent(tensor, *_):
        record.note("communication", [tensor])

    after(_flat_param.FlatParamHandle, "_use_unsharded_flat_param",
          lambda _, handle, flat: record.note("parameter", [flat]))
    after(_flat_param.FlatParamHandle, "_use_low_precision_shard",
          lambda _, handle: record.note("parameter", [handle.flat_param._mp_shard]))
    try:
        from torch.distributed.fsdp._fully_shard import _fsdp_collectives as collectives
        from torch.distributed.fsdp._fully_shard import _fsdp_param, _fsdp_param_group
    except ImportError:  # before PyTorch 2.6 nobody used FSDP2
        return
    after(_fsdp_param.FSDPParam, "init_unsharded_param",
          lambda _, parameter: record.note("parameter", parameter.all_gather_outputs))
    if hasattr(collectives, "DefaultAllGather"):
        for kind in (collectives.DefaultAllGather, collectives.DefaultReduceScatter):
            after(kind, "allocate", sent)
    elif hasattr(collectives, "allocate_memory"):  # before PyTorch 2.9
        after(collectives, "allocate_memory", sent)
    else:
        after(_fsdp_param_group, "foreach_all_gather", lambda result, *_: result and sent(result.all_gather_output))
        after(_fsdp_param_group, "foreach_reduce", lambda result, *_: sent(result[0]))


class Block(nn.Module):
    def __init__(self, width=256, expansion=3):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, expansion * width)
        self.down = nn.Linear(expansion * width, width)

    def forward(self, hidden):
        return hidden + self.down(functional.gelu(self.up(self.norm(hidden))))


class Net(nn.Module):
    def __init__(self, depth=3, width=256, outputs=32):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, outputs)

    def forward(self, hidden):
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(hidden)


def sharded_by_flat(record):
    """FSDP1: each block's parameters are one flat tensor, a quarter of which is here."""
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    with one_of(4):
        watch_fsdp(record)
        model = FullyShardedDataParallel(Net().cuda(), auto_wrap_policy=ModuleWrapPolicy({Block}), device_id=0)
        train(record, model, torch.optim.AdamW(model.parameters()))


def sharded_by_flat_half(record):
    """FSDP1 as trainers configure it: bf16 gathers, original parameters, gradients clipped, no gather for the root's backward."""
    from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, ShardingStrategy
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    half = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16, buffer_dtype=torch.bfloat16)
    with one_of(2):
        watch_fsdp(record)
        model = FullyShardedDataParallel(
            Net(), auto_wrap_policy=ModuleWrapPolicy({Block}), mixed_precision=half, use_orig_params=True, device_id=0,
            sharding_strategy=ShardingStrategy.SHARD_GRAD_OP)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        record.watch([model], [optimizer])
        for step in range(STEPS):
            inputs, targets = make_batch()
            loss = functional.cross_entropy(model(inputs).float(), targets)
            record.take("fwd", step, (inputs, targets))
            loss.backward()
            record.take("bwd", step, (inputs, targets))
            model.clip_grad_norm_(1.0)
            optimizer.step()
            record.take("step", step, (inputs, targets))
            optimizer.zero_grad()


def sharded_by_tensor(record):
    """FSDP2: each parameter is a DTensor, of which an eighth is here."""
    from torch.distributed.fsdp import fully_shard

    with one_of(8):
        watch_fsdp(record)
        model = Net().cuda()
        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)
        train(record, model, torch.optim.AdamW(model.parameters()))


def sharded_by_tensor_half(record):
    """FSDP2 in bf16 that keeps what it gathered until backward, and sums two passes before it reduces them."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    with one_of(2):
        watch_fsdp(record)
        with torch.device("meta"):
            model = Net()
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for block in model.blocks:
            fully_shard(block, mp_policy=policy, reshard_after_forward=False)
        fully_shard(model, mp_policy=policy)
        model.to_empty(device="cuda")
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        record.watch([model], [optimizer])
        for step in range(STEPS):
            for index in range(2):
                model.set_requires_gradient_sync(index == 1)
                inputs, targets = make_batch()
                loss = functional.cross_entropy(model(inputs).float(), targets)
                record.take("fwd", step, (inputs, targets))
                loss.backward()
                record.take("bwd", step, (inputs, targets), unreduced(model))
            optimizer.step()
            record.take("step", step, (inputs, targets))
            optimizer.zero_grad()


def unreduced(model):
    """Gradients that FSDP2 keeps whole until it may reduce them."""
    for module in model.modules():
        group = getattr(module, "_get_fsdp_state", lambda: None)()
        for parameter in group._fsdp_param_group.fsdp_params if group and group._fsdp_param_group else ():
            yield parameter.unsharded_accumulated_grad
            if getattr(parameter, "_unsharded_param", None) is not None:
                yield parameter._unsharded_param.grad


def state_in_shares(record):
    """ZeRO-1: each process has the optimizer state of its share of the parameters."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    begin_process_group()
    model = nn.parallel.DistributedDataParallel(Net().cuda())

    def reduce(state, bucket):
        record.note("communication", [bucket.buffer()])
        return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda future: future.value()[0])

    model.register_comm_hook(None, reduce)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=1e-3)
    record.watch([model], [optimizer.optim])
    for step in range(STEPS):
        inputs, targets = make_batch()
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(inputs), targets)
        record.take("fwd", step, (inputs, targets))
        loss.backward()
        record.take("bwd", step, (inputs, targets))
        optimizer.step()
        record.take("step", step, (inputs, targets))
    end_process_group()


class Adapter(nn.Module):
    """A frozen layer, and two thin ones beside it that learn."""

    def __init__(self, layer, rank=8, scale=2.0):
        super().__init__()
        self.layer, self.scale = layer.requires_grad_(False), scale
        self.lora_A = nn.Parameter(torch.randn(rank, layer.in_features) * 0.02)
        self.lora_B = nn.Parameter(torch.zeros(layer.out_features, rank))

    def forward(self, hidden):
        return self.layer(hidden) + (hidden @ self.lora_A.t() @ self.lora_B.t()) * self.scale


def adapters_in_parallel(record):
    """LoRA under DistributedDataParallel, whose buckets hold the gradients; two passes for each step."""
    begin_process_group()
    model = Net(width=320).requires_grad_(False)
    for block in model.blocks:
        block.up, block.down = Adapter(block.up), Adapter(block.down)
    model.cuda()
    # Without a broadcast at the start: Gloo's thread frees its buffer at a time of its own, on a busy machine after the peak.
    wrapped = nn.parallel.DistributedDataParallel(model, device_ids=[0], gradient_as_bucket_view=True, init_sync=False)
    optimizer = torch.optim.AdamW([weight for weight in wrapped.parameters() if weight.requires_grad], lr=1e-3)
    record.watch([model], [optimizer])
    for step in range(STEPS):
        for micro in range(2):
            inputs, targets = models.on_device(torch.randn(640, 320), torch.zeros(640, dtype=torch.long))
            with wrapped.no_sync() if micro == 0 else contextlib.nullcontext():
                loss = functional.cross_entropy(wrapped(inputs), targets) / 2
                record.take("fwd", step, (inputs, targets))
                loss.backward()
            record.take("bwd", step, (inputs, targets))
        optimizer.step()
        record.take("step", step, (inputs, targets))
        optimizer.zero_grad()
    end_process_group()


class Partition:
    """ZeRO-2 by hand: gradients go to flat buckets that are reduced to this process's share of them."""

    def __init__(self, model, world_size):
        self.model, self.world_size = model, world_size
        self.weights = [weight for weight in model.parameters() if weight.requires_grad]
        flat = torch.cat([weight.detach().flatten() for weight in self.weights])
        self.share = nn.Parameter(flat.chunk(world_size)[0].clone())
        self.optimizer = torch.optim.Adam([self.share], lr=1e-3)

    def reduce(self):
        flat = torch.cat([weight.grad.flatten() for weight in self.weights])
        received = torch.empty_like(self.share)
        dist.reduce_scatter_tensor(received, flat)
        for weight in self.weights:
            weight.grad = None
        self.share.grad = received / self.world_size

    def step(self):
        self.optimizer.step()
        self.optimizer.zero_grad()
        whole = self.share.new_empty(self.share.numel() * self.world_size)
        dist.all_gather_into_tensor(whole, self.share.detach())
        for weight, new in zip(self.weights, whole.split([weight.numel() for weight in self.weights])):
            weight.data.copy_(new.view_as(weight))


def gradients_in_shares(record):
    with one_of(2):
        model = Net(width=128).cuda()
        partition = Partition(model, 2)
        record.watch([model, Held([partition.share])], [partition.optimizer])
        for step in range(STEPS):
            inputs = torch.randn(64, 128).to("cuda")
            targets = torch.zeros(64, dtype=torch.long).to("cuda")
            loss = functional.cross_entropy(model(inputs), targets)
            record.take("fwd", step, (inputs, targets))
            loss.backward()
            record.take("bwd", step, (inputs, targets))
            partition.reduce()
            record.take("reduced", step, (inputs, targets))
            partition.step()
            record.take("step", step, (inputs, targets))


class Gathered(torch.autograd.Function):
    """A linear layer over a share of its weight: gathered for forward, again for backward, and dropped each time."""

    @staticmethod
    def forward(context, hidden, share, layer):
        context.save_for_backward(hidden)
        context.layer, context.share = layer, share
        return functional.linear(hidden, layer.gather(share))

    @staticmethod
    def backward(context, slope):
        (hidden,), layer = context.saved_tensors, context.layer
        onward = slope @ layer.gather(context.share)
        whole = slope.t() @ hidden
        received = torch.empty_like(context.share)
        dist.reduce_scatter_tensor(received, whole)
        return onward, received, None


class ShardedLinear(nn.Module):
    def __init__(self, inputs, outputs, record):
        super().__init__()
        self.record = record
        self.share = nn.Parameter(torch.randn(outputs // dist.get_world_size(), inputs, device="cuda") * 0.05)

    def gather(self, share):
        whole = torch.empty(share.shape[0] * dist.get_world_size(), share.shape[1], device=share.device)
        dist.all_gather_into_tensor(whole, share.detach())
        self.record.note("parameter", [whole])
        return whole

    def forward(self, hidden):
        return Gathered.apply(hidden, self.share, self)


def weights_in_shares(record):
    """ZeRO-3 by hand, as a Function."""
    with one_of(4):
        model = nn.Sequential(ShardedLinear(256, 1024, record), nn.GELU(), ShardedLinear(1024, 512, record), nn.GELU(),
                              ShardedLinear(512, 32, record))
        train(record, model, torch.optim.AdamW(model.parameters(), lr=1e-3))


class Gatherer:
    """ZeRO-3 by hooks: a layer's parameters point into a gathered buffer while it runs, to a share else (DeepSpeed)."""

    def __init__(self, model, record):
        self.record, self.world_size = record, dist.get_world_size()
        self.shares, self.shapes = {}, {}
        for layer in model.modules():
            weights = list(layer.parameters(recurse=False))
            for weight in weights:
                self.shapes[weight] = weight.shape
                self.shares[weight] = weight.data.flatten().chunk(self.world_size)[0].clone()
                weight.data = self.shares[weight]
            if weights:
                layer.register_forward_pre_hook(lambda layer, _: self.fetch(layer))
                layer.register_forward_hook(lambda layer, *_: self.release(layer))
                layer.register_full_backward_pre_hook(lambda layer, _: self.fetch(layer))
                for weight in weights:
                    weight.register_post_accumulate_grad_hook(self.reduce)

    def fetch(self, layer):
        for weight in layer.parameters(recurse=False):
            whole = torch.empty(self.shares[weight].numel() * self.world_size, device="cuda")
            dist.all_gather_into_tensor(whole, self.shares[weight])
            self.record.note("parameter", [whole])
            weight.data = whole[: self.shapes[weight].numel()].view(self.shapes[weight])

    def release(self, layer):
        for weight in layer.parameters(recurse=False):
            weight.data = self.shares[weight]

    def reduce(self, weight):
        part = torch.empty_like(self.shares[weight])
        dist.reduce_scatter_tensor(part, weight.grad.flatten())
        weight.grad = None
        weight.data = self.shares[weight]
        weight.grad = part


def fetched_by_hooks(record):
    with one_of(4):
        model = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 512), nn.GELU(), nn.Linear(512, 64)).cuda()
        gatherer = Gatherer(model, record)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
        record.watch([model, Held(gatherer.shares.values())], [optimizer])
        for step in range(STEPS):
            inputs, targets = make_batch()
            loss = functional.cross_entropy(model(inputs), targets)
            record.take("fwd", step, (inputs, targets))
            loss.backward()
            record.take("bwd", step, (inputs, targets))
            optimizer.step()
            record.take("step", step, (inputs, targets))
            optimizer.zero_grad()


def tensor_parallel(record):
    """Rows and columns of each weight are elsewhere; activations are summed over processes."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    with one_of(4):
        mesh = init_device_mesh("cuda", (4,))
        model = Net().cuda()
        for block in model.blocks:
            parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
        train(record, model, torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False))


def tensor_and_data_parallel(record):
    """Two dimensions: weights are split by rows and columns, then sharded by FSDP2."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    with one_of(4):
        watch_fsdp(record)
        mesh = init_device_mesh("cuda", (2, 2), mesh_dim_names=("data", "model"))
        model = Net(depth=2).cuda()
        for block in model.blocks:
            parallelize_module(block, mesh["model"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
            fully_shard(block, mesh=mesh["data"])
        fully_shard(model, mesh=mesh["data"])
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        train(record, model, optimizer)


class Stages:
    """Two stages of a pipeline in one process, with several micro-batches in flight: all forwards, then all backwards."""

    def __init__(self, *stages, micro_batches=4):
        self.stages, self.micro_batches = nn.ModuleList(stages), micro_batches

    def forward(self, inputs, targets):
        flights = []
        for rows, wanted in zip(inputs.chunk(self.micro_batches), targets.chunk(self.micro_batches)):
            boundaries, hidden = [], rows
            for stage in self.stages:
                received = hidden.detach().requires_grad_()
                hidden = stage(received)
                boundaries.append((received, hidden))
            flights.append((boundaries, functional.cross_entropy(hidden, wanted) / self.micro_batches))
        return flights

    def backward(self, flights):
        while flights:
            boundaries, loss = flights.pop()
            slope = None
            for received, sent in reversed(boundaries):
                torch.autograd.backward(loss if slope is None else sent, slope)
                slope = received.grad
            del boundaries, loss, received, sent, slope


def pipeline_by_hand(record):
    pipeline = Stages(Net(depth=2, outputs=256).cuda(), Net(depth=2).cuda())
    optimizer = torch.optim.AdamW(pipeline.stages.parameters(), lr=1e-3)
    record.watch([pipeline.stages], [optimizer])
    for step in range(STEPS):
        inputs, targets = make_batch(128)
        flights = pipeline.forward(inputs, targets)
        record.take("fwd", step, (inputs, targets))
        pipeline.backward(flights)
        record.take("bwd", step, (inputs, targets))
        optimizer.step()
        record.take("step", step, (inputs, targets))
        optimizer.zero_grad()


def pipeline_stage(record):
    """The first of two stages under torch's own schedule; what it receives are gradients of what it sends."""
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    with one_of(2):
        model = Net(depth=2, outputs=256).cuda()
        device = torch.device("cuda", 0)
        example = torch.randn(32, 256).to("cuda")
        sent = torch.empty(32, 256, device="meta", requires_grad=True)
        stage = PipelineStage(model, 0, 2, device, input_args=(example,), output_args=(sent,))
        del example
        schedule = Schedule1F1B(stage, n_microbatches=4, loss_fn=functional.cross_entropy)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        record.watch([model], [optimizer])
        for step in range(STEPS):
            inputs, _ = make_batch(128)
            schedule.step(inputs)
            record.take("bwd", step, (inputs,))
            optimizer.step()
            record.take("step", step, (inputs,))
            optimizer.zero_grad()
