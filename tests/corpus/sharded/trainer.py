"""One rank of a training whose trainer shares weights, gradients or optimizer state out among the ranks.

    torchrun --nproc-per-node 2 trainer.py CONFIGURATION FOLDER

FOLDER gets rank-R.truth: at each mark what PyTorch's allocator counts, and [[address, bytes, role, name]...], the storages that
the trainer's own objects hold, each once. Roles: parameter (also shards), master (in full precision), state, gradient, bucket (what
gradients are reduced in). Name: a word that the owner's name must have; null = any name, "" = none is asked. Nothing here comes from
vramtrace.
"""
import functools
import itertools
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


def skip_steps(first=None):
    """From the step of that number on, as after an overflow. Simulated kernels compute nothing, so that any step might look like that."""
    from deepspeed.runtime.zero import stage3, stage_1_and_2

    numbers = itertools.count()
    stage_1_and_2.is_invalid_grad_norm = stage3.is_invalid_grad_norm = lambda norm: first is not None and next(numbers) >= first
    for optimizer in (stage_1_and_2.DeepSpeedZeroOptimizer, stage3.DeepSpeedZeroOptimizer_Stage3):
        optimizer.has_overflow = lambda *arguments, **options: False


def deepspeed_engine(micro_batches=1, skipped_from=None, **zero):
    import deepspeed

    skip_steps(skipped_from)
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


def deepspeed(path, micro_batches=1, **settings):
    engine, net, wrapper = deepspeed_engine(micro_batches, **settings)
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


def huggingface(path):
    """The Trainer of transformers, over ZeRO-3. The engine's step belongs to its backward."""
    import transformers

    class Sentences(torch.utils.data.Dataset):
        def __len__(self):
            return 1000

        def __getitem__(self, place):
            words = torch.randint(WORDS, (TOKENS,))
            return {"input_ids": words, "labels": words}

    class Marks(transformers.TrainerCallback):
        def on_step_begin(self, arguments, state, control, **others):
            if state.global_step == MARKED_STEP:
                engine = trainer.model_wrapped
                truth.give, step = lambda: of_deepspeed(net, engine.optimizer), engine.step
                engine.step = lambda *given: (truth.take("backward-0"), step(*given))

        def on_step_end(self, arguments, state, control, **others):
            if state.global_step == MARKED_STEP + 1:
                truth.take("step")
                del trainer.model_wrapped.step

    skip_steps()
    truth = Truth(path, None)
    settings = {"zero_optimization": {"stage": 3, "contiguous_gradients": True, "reduce_bucket_size": 1000000,
                                      "stage3_param_persistence_threshold": 1000},
                "bf16": {"enabled": True}, "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
                "zero_allow_untested_optimizer": True}
    arguments = transformers.TrainingArguments(
        str(path.parent / "out"), per_device_train_batch_size=4, max_steps=STEPS, bf16=True, deepspeed=settings, report_to=[],
        save_strategy="no", optim="adamw_torch", gradient_checkpointing=True, disable_tqdm=True)
    net = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        hidden_size=WIDTH, intermediate_size=4 * WIDTH, num_hidden_layers=LAYERS, num_attention_heads=8, num_key_value_heads=8,
        vocab_size=WORDS, max_position_embeddings=TOKENS))
    trainer = transformers.Trainer(net, arguments, train_dataset=Sentences(), callbacks=[Marks()])
    trainer.train()
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


def broadcast_objects_on_cpu():
    """Simulated kernels do not put the sizes of objects together."""
    broadcast, group = torch.distributed.broadcast_object_list, functools.cache(lambda: torch.distributed.new_group(backend="gloo"))
    torch.distributed.broadcast_object_list = lambda objects, src=0, **others: broadcast(objects, src, group=group())


def lightning(path, strategy):
    import lightning

    broadcast_objects_on_cpu()

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = Net()

        def training_step(self, given, place):
            return self.net(batch())

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-4)

        def on_after_backward(self):
            if self.global_step == MARKED_STEP:
                truth.take("backward-0")

        def on_train_batch_end(self, *given):
            if self.global_step == MARKED_STEP + 1:
                truth.take("step")

    module = Module()
    truth = Truth(path, lambda: of_torch(module, module.optimizers(use_pl_optimizer=False)))
    trainer = lightning.Trainer(
        accelerator="gpu", devices=int(os.environ["WORLD_SIZE"]), strategy=strategy(), precision="bf16-mixed", max_steps=STEPS,
        logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(module, torch.utils.data.DataLoader(torch.zeros(64, 1)))
    truth.write()


def lightning_flat():
    from lightning.pytorch.strategies import FSDPStrategy

    return FSDPStrategy(auto_wrap_policy={Block})


# ---- Megatron ----


def of_megatron(nets, optimizer):
    """Parameters and gradients are views of buffers; masters and state are this rank's share."""
    for net in nets:
        for buffer in (*net.buffers, *net.expert_parallel_buffers):
            yield "parameter", None, buffer.param_data
            yield "gradient", "", buffer.grad_data
        for name, parameter in net.named_parameters():
            yield "parameter", name.rpartition(".")[2], parameter.data
    for each in getattr(optimizer, "chained_optimizers", [optimizer]):
        for groups in each.shard_fp32_from_float16_groups:
            for tensor in groups:
                yield "master", None, tensor
        for values in each.optimizer.state.values():
            for key, tensor in values.items():
                yield "state", key, tensor


def megatron(path, tensor_parallel):
    from megatron.core import parallel_state, tensor_parallel as parallel
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
    from megatron.core.transformer import TransformerConfig

    torch.distributed.init_process_group("nccl")
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=tensor_parallel)
    parallel.random.model_parallel_cuda_manual_seed(1)
    settings = TransformerConfig(
        num_layers=LAYERS, hidden_size=WIDTH, num_attention_heads=8, tensor_model_parallel_size=tensor_parallel, bf16=True,
        params_dtype=torch.bfloat16, pipeline_dtype=torch.bfloat16, gradient_accumulation_fusion=False, attention_softmax_in_fp32=False)
    net = GPTModel(settings, get_gpt_layer_local_spec(), WORDS, TOKENS).cuda().bfloat16()
    net = DistributedDataParallel(
        settings, DistributedDataParallelConfig(use_distributed_optimizer=True, grad_reduce_in_fp32=True), net)
    optimizer = get_megatron_optimizer(OptimizerConfig(
        optimizer="adam", lr=1e-4, bf16=True, use_distributed_optimizer=True, clip_grad=0.0), [net])
    truth, places = Truth(path, lambda: of_megatron([net], optimizer)), torch.arange(TOKENS, device="cuda").expand(4, -1)
    mask = torch.ones(1, 1, TOKENS, TOKENS, dtype=torch.bool, device="cuda").triu(1)
    for step in range(STEPS):
        net.zero_grad_buffer()
        optimizer.zero_grad()
        words = batch()
        net(words, places, mask, labels=words).mean().backward()
        finalize_model_grads([net])
        if step == MARKED_STEP:
            truth.take("backward-0")
        optimizer.step()
        if step == MARKED_STEP:
            truth.take("step")
    truth.write()


CONFIGURATIONS = {
    "zero1": lambda path: deepspeed(path, stage=1),
    "zero1_accumulating": lambda path: deepspeed(path, 2, stage=1),
    "zero1_offloaded": lambda path: deepspeed(path, stage=1, offload_optimizer={"device": "cpu"}),
    "zero2": lambda path: deepspeed(path, stage=2),
    "zero2_accumulating": lambda path: deepspeed(path, 2, stage=2),
    "zero2_offloaded": lambda path: deepspeed(path, stage=2, offload_optimizer={"device": "cpu"}),
    "zero3": lambda path: deepspeed(path, stage=3, stage3_param_persistence_threshold=1000),
    "zero3_accumulating": lambda path: deepspeed(path, 2, stage=3, stage3_param_persistence_threshold=1000),
    "zero3_skipping": lambda path: deepspeed(path, 2, skipped_from=2, stage=3, stage3_param_persistence_threshold=1000),
    "huggingface_zero3": huggingface,
    "replicas": replicas,
    "fully_sharded": fully_sharded,
    "fully_sharded_flat": fully_sharded_flat,
    "accelerate_fully_sharded": accelerate,
    "lightning_replicas": lambda path: lightning(path, lambda: "ddp"),
    "lightning_fully_sharded_flat": lambda path: lightning(path, lightning_flat),
    "megatron_data": lambda path: megatron(path, 1),
    "megatron_tensor": lambda path: megatron(path, 2),
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
