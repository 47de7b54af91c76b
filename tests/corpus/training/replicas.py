"""Several processes, of which this is the first: replicas over gloo, sharded weights over collectives that move nothing."""
import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel


# --- replicas ---------------------------------------------------------------------------------------------------------------------

class Mixer(nn.Module):
    def __init__(self, patches=64, width=192, depth=4):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 4, 4)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * depth))
        self.tokens = nn.ModuleList(nn.Sequential(nn.Linear(patches, 128), nn.GELU(), nn.Linear(128, patches)) for _ in range(depth))
        self.channels = nn.ModuleList(nn.Sequential(nn.Linear(width, 768), nn.GELU(), nn.Linear(768, width)) for _ in range(depth))
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = self.stem(x).flatten(2).transpose(1, 2)
        for i, (tokens, channels) in enumerate(zip(self.tokens, self.channels)):
            x = x + tokens(self.norms[2 * i](x).transpose(1, 2)).transpose(1, 2)
            x = x + channels(self.norms[2 * i + 1](x))
        return self.head(x.mean(1))


def replicas_accumulating(record):
    """Gradients are views of the buckets; three passes without a sum, the fourth with it; bfloat16 by autocast."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    model = DistributedDataParallel(Mixer().cuda(), device_ids=[0], gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    record.watch([model], [optimizer])
    for step in range(4):
        for micro in range(4):
            x, y = torch.rand(8, 3, 32, 32).cuda(), torch.randint(0, 10, (8,)).cuda()
            with model.no_sync() if micro < 3 else contextlib.nullcontext():
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    loss = F.cross_entropy(model(x), y) / 4
                if micro in (0, 3):
                    record.take("fwd", step, (x, y))
                record.note("input", [x, y])
                loss.backward()
            if micro in (0, 3):
                record.take("bwd", step, (x, y))
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        record.take("step", step, (x, y))
    dist.destroy_process_group()


# --- sharded weights -----------------------------------------------------------------------------------------------------------------

def watch_sharding(record):
    """What is gathered is weights; what gradients are summed in is for communication."""
    from torch.distributed.fsdp._fully_shard._fsdp_param_group import FSDPParamGroup

    gather, scatter, wait = dist.all_gather_into_tensor, dist.reduce_scatter_tensor, FSDPParamGroup.wait_for_unshard

    def all_gather_into_tensor(output_tensor, input_tensor, *arguments, **options):
        record.note("parameter", [output_tensor])
        return gather(output_tensor, input_tensor, *arguments, **options)

    def reduce_scatter_tensor(output, input, *arguments, **options):
        record.note("communication", [output, input])
        return scatter(output, input, *arguments, **options)

    def wait_for_unshard(group):
        wait(group)
        for parameter in group.fsdp_params:
            record.note("parameter", parameter.all_gather_outputs)

    dist.all_gather_into_tensor, dist.reduce_scatter_tensor = all_gather_into_tensor, reduce_scatter_tensor
    FSDPParamGroup.wait_for_unshard = wait_for_unshard


class Layer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.attention_norm, self.ffn_norm = nn.RMSNorm(d), nn.RMSNorm(d)
        self.wqkv, self.wo = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        self.w1, self.w2, self.w3 = nn.Linear(d, 3 * d, bias=False), nn.Linear(3 * d, d, bias=False), nn.Linear(d, 3 * d, bias=False)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.wqkv(self.attention_norm(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d)
        x = x + self.wo(mixed)
        h = self.ffn_norm(x)
        return x + self.w2(F.silu(self.w1(h)) * self.w3(h))


class Decoder(nn.Module):
    def __init__(self, words=4000, d=256, layers=4, heads=8):
        super().__init__()
        self.tok_embeddings = nn.Embedding(words, d)
        self.layers = nn.ModuleList(Layer(d, heads) for _ in range(layers))
        self.norm, self.output = nn.RMSNorm(d), nn.Linear(d, words, bias=False)

    def forward(self, tokens):
        x = self.tok_embeddings(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))


def sharded_decoder(record):
    """fully_shard over four ranks, weights gathered in bfloat16, sums in float32, the norm of the gradients clipped."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    watch_sharding(record)
    mesh = init_device_mesh("cuda", (4,))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model = Decoder().cuda()
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, foreach=True)
    record.watch([model], [optimizer])
    for step in range(4):
        tokens = torch.randint(0, 4000, (2, 129)).cuda()
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
        record.take("fwd", step, (tokens,))
        loss.backward()
        record.take("bwd", step, (tokens,))
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        optimizer.zero_grad()
        record.take("step", step, (tokens,))
    dist.destroy_process_group()
