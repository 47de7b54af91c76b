"""One rank of a training whose trainer shares weights, gradients or optimizer state out among the ranks.

    torchrun --nproc-per-node 2 trainer.py CONFIGURATION FOLDER

FOLDER gets rank-R.truth: at each mark what PyTorch's allocator counts, and [[address, bytes, role, name]...], the storages that
the trainer's own objects hold, each once. Roles: parameter (also shards), master (in full precision), state, gradient, bucket (what
gradients are reduced in). Name: a word that the owner's name must have; null = any name, "" = none is asked. Nothing here comes from
vramtrace.
"""
import json
import os
import pathlib
import sys

import torch
import torch.nn.functional as functional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from category_truth import tensors_in, train_script  # noqa: E402

STEPS, MARKED_STEP, WIDTH, TOKENS, WORDS, LAYERS = 6, 3, 256, 128, 4000, 4
mark = train_script.load_mark()


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.qkv, self.projection = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.wider, self.narrower = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, values):
        size = values.shape
        query, key, value = self.qkv(self.before(values)).view(*size[:2], 3, 8, -1).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        values = values + self.projection(seen.transpose(1, 2).reshape(size))
        return values + self.narrower(functional.gelu(self.wider(self.after(values))))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = torch.nn.Embedding(WORDS, WIDTH)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = torch.nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, batch):
        values = self.tokens(batch)
        for block in self.blocks:
            values = block(values)
        return functional.cross_entropy(self.head(values).float().view(-1, WORDS), batch.view(-1))


def batch():
    return torch.randint(WORDS, (4, TOKENS), device="cuda")


class Truth:
    def __init__(self, path, give):
        """GIVE() gives (role, name, tensor) of all that is known now; of what lies in one storage the first counts."""
        self.path, self.give, self.marks = path, give, {}

    def take(self, name):
        found = {}
        mark(name)
        for role, owner, tensor in self.give():
            local = getattr(tensor, "_local_tensor", tensor)
            if isinstance(local, torch.Tensor) and local.is_cuda and local.untyped_storage().nbytes():
                storage = local.untyped_storage()
                found.setdefault(storage.data_ptr(), (storage.data_ptr(), storage.nbytes(), role, owner))
        self.marks[name] = {"allocated": torch.cuda.memory_allocated(), "storages": list(found.values())}

    def write(self):
        self.path.write_text(json.dumps(self.marks))


# ---- DeepSpeed ----


def of_deepspeed(net, optimizer):
    for name, parameter in net.named_parameters():
        yield "parameter", name, parameter.data
        yield "parameter", "shard", getattr(parameter, "ds_tensor", None)
        yield "gradient", "", parameter.grad
    for attribute in ("single_partition_of_fp32_groups", "fp32_partitioned_groups_flat"):
        for tensor in tensors_in(getattr(optimizer, attribute, ())):
            yield "master", None, tensor
    for values in optimizer.optimizer.state.values():
        for key, tensor in values.items():
            yield "state", key, tensor
    for bucket in getattr(optimizer, "ipg_buckets", {}).values():
        for tensor in tensors_in(bucket.buffer):
            yield "bucket", "", tensor
    yield "bucket", "", getattr(optimizer, "temp_grad_buffer_for_gpu_offload", None)
    for attribute in ("grad_partitions_flat_buffer", "averaged_gradients"):
        for tensor in tensors_in(getattr(optimizer, attribute, ())):
            yield "gradient", "", tensor


def deepspeed_engine(micro_batches=1, **zero):
    import deepspeed
    from deepspeed.runtime.zero import stage3, stage_1_and_2

    # Simulated kernels compute nothing, so that a step would be skipped for what looks like an overflow.
    stage_1_and_2.is_invalid_grad_norm = stage3.is_invalid_grad_norm = lambda norm: False
    for optimizer in (stage_1_and_2.DeepSpeedZeroOptimizer, stage3.DeepSpeedZeroOptimizer_Stage3):
        optimizer.has_overflow = lambda *arguments, **options: False
    settings = {
        "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": micro_batches, "bf16": {"enabled": True},
        "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False,
        "zero_optimization": {"contiguous_gradients": True, "reduce_bucket_size": 1000000, "overlap_comm": zero["stage"] < 3, **zero}}
    deepspeed.init_distributed()
    if zero["stage"] == 3:
        with deepspeed.zero.Init(config_dict_or_path=settings):
            net = Net()
    else:
        net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
    engine, wrapper, _, _ = deepspeed.initialize(model=net, optimizer=optimizer, config=settings)
    return engine, net, wrapper


def deepspeed(path, micro_batches=1, **zero):
    engine, net, wrapper = deepspeed_engine(micro_batches, **zero)
    truth = Truth(path, lambda: of_deepspeed(net, wrapper))
    for step in range(STEPS):
        for micro in range(micro_batches):
            loss = engine(batch())
            engine.backward(loss)
            if step == MARKED_STEP:
                truth.take(f"backward-{micro}")
            engine.step()
        if step == MARKED_STEP:
            truth.take("step")
    truth.write()


# ---- PyTorch's own, and what calls it ----


def of_torch(net, optimizer):
    for name, parameter in net.named_parameters():
        yield "parameter", name.rpartition(".")[2], parameter
        yield "gradient", "grad", parameter.grad
        for key, tensor in optimizer.state.get(parameter, {}).items():
            yield "state", key, tensor


def loop(path, net, optimizer, backward=torch.Tensor.backward):
    truth = Truth(path, lambda: of_torch(net, optimizer))
    for step in range(STEPS):
        backward(net(batch()))
        if step == MARKED_STEP:
            truth.take("backward-0")
        optimizer.step()
        optimizer.zero_grad()
        if step == MARKED_STEP:
            truth.take("step")
    truth.write()


def replicas(path):
    torch.distributed.init_process_group("nccl")
    net = torch.nn.parallel.DistributedDataParallel(Net().cuda())
    loop(path, net, torch.optim.AdamW(net.parameters(), lr=1e-4))


def fully_sharded(path):
    from torch.distributed.fsdp import fully_shard

    torch.distributed.init_process_group("nccl")
    net = Net().cuda()
    for block in net.blocks:
        fully_shard(block)
    fully_shard(net)
    loop(path, net, torch.optim.AdamW(net.parameters(), lr=1e-4))


def fully_sharded_flat(path):
    from torch.distributed.fsdp import FullyShardedDataParallel

    torch.distributed.init_process_group("nccl")
    net = Net().cuda()
    for place, block in enumerate(net.blocks):
        net.blocks[place] = FullyShardedDataParallel(block)
    net = FullyShardedDataParallel(net)
    loop(path, net, torch.optim.AdamW(net.parameters(), lr=1e-4))


def accelerate(path):
    from accelerate import Accelerator, FullyShardedDataParallelPlugin

    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2, auto_wrap_policy="transformer_based_wrap", transformer_cls_names_to_wrap=["Block"])
    accelerator = Accelerator(mixed_precision="bf16", fsdp_plugin=plugin)
    net = Net()
    net, optimizer = accelerator.prepare(net, torch.optim.AdamW(net.parameters(), lr=1e-4))
    loop(path, net, optimizer, accelerator.backward)


CONFIGURATIONS = {
    "zero1": lambda path: deepspeed(path, stage=1),
    "zero1_accumulating": lambda path: deepspeed(path, 2, stage=1),
    "zero1_offloaded": lambda path: deepspeed(path, stage=1, offload_optimizer={"device": "cpu"}),
    "zero2": lambda path: deepspeed(path, stage=2),
    "zero2_accumulating": lambda path: deepspeed(path, 2, stage=2),
    "zero2_offloaded": lambda path: deepspeed(path, stage=2, offload_optimizer={"device": "cpu"}),
    "zero3": lambda path: deepspeed(path, stage=3, stage3_param_persistence_threshold=1000),
    "zero3_accumulating": lambda path: deepspeed(path, 2, stage=3, stage3_param_persistence_threshold=1000),
    "replicas": replicas,
    "fully_sharded": fully_sharded,
    "fully_sharded_flat": fully_sharded_flat,
    "accelerate_fully_sharded": accelerate,
}


def main():
    configuration, folder = sys.argv[1:]
    torch.manual_seed(0)
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    CONFIGURATIONS[configuration](pathlib.Path(folder) / f"rank-{os.environ['RANK']}.truth")
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
