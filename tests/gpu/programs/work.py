"""Uses the card in one way, and writes what is true at points of it: work.py NAME TRUTH (WORK has the names)."""
import hashlib
import os
import pathlib
import sys

import torch
from torch import nn

from points import Points

STEPS = 6
STANDIN = bool(os.environ.get("VRAMTRACE_RUN"))
# cuDNN's graphs need a real backend.
if STANDIN:
    torch.backends.cudnn.enabled = False
    torch.backends.cuda.enable_cudnn_sdp(False)


def amp_model():
    from train import Model  # examples/

    model = Model().cuda()
    return model, torch.optim.AdamW(model.parameters(), lr=3e-4)


def amp_loss(model, rows=8):
    tokens = torch.randint(0, 8192, (rows, 256), device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        return nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())


def train(points, model, optimizer, loss, steps=STEPS):
    """Gives the losses; points at the ends of the first steps."""
    losses = []
    for step in range(steps):
        value = loss()
        value.backward()
        if step < 2:
            points.take(f"backward{step}")
        optimizer.step()
        optimizer.zero_grad()
        losses.append(value.detach())
        if step < 2:
            points.take(f"step{step}")
    return [float(value) for value in losses]


def training(points):
    model, optimizer = amp_model()
    points.tell(losses=train(points, model, optimizer, lambda: amp_loss(model)))
    points.take("end", card=True)


def deterministic(points):
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(7)
    model = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Dropout(0.1), nn.Linear(2048, 512)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    losses = train(points, model, optimizer, lambda: model(torch.randn(256, 512, device="cuda")).square().mean(), 20)
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().cpu().numpy().tobytes())
    points.tell(losses=losses, parameters=digest.hexdigest(), generator=hashlib.sha256(
        torch.cuda.get_rng_state().numpy().tobytes()).hexdigest())
    points.take("end")


def convolutions(points):
    """With cuDNN choosing among its algorithms, so that it tries workspaces."""
    import torchvision

    torch.backends.cudnn.benchmark = True
    model = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    images = torch.randn(32, 3, 128, 128, device="cuda").to(memory_format=torch.channels_last)
    labels = torch.zeros(32, dtype=torch.long, device="cuda")
    points.tell(losses=train(points, model, optimizer, lambda: nn.functional.cross_entropy(model(images), labels)),
                cudnn=torch.backends.cudnn.version())
    points.take("end", card=True)


def collectives(points):
    """NCCL with one rank: its buffers are the driver's, not torch's."""
    import torch.distributed as dist

    ballast = torch.ones(16 << 20, device="cuda")
    points.take("before", card=True)
    dist.init_process_group("nccl", init_method=f"file://{points.path}.store", rank=0, world_size=1)
    dist.all_reduce(ballast)
    gathered = [torch.empty_like(ballast)]
    dist.all_gather(gathered, ballast)
    points.take("end", card=True)
    points.tell(nccl=str(torch.cuda.nccl.version()))
    dist.destroy_process_group()


def captured(points):
    """A training step as a CUDA graph, beside the same step without: its losses, and the private pool."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)).cuda()
    start = {name: value.clone() for name, value in model.state_dict().items()}
    batch = torch.randn(512, 1024, device="cuda")

    def step(optimizer):
        optimizer.zero_grad(set_to_none=False)
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    plain = torch.optim.SGD(model.parameters(), lr=0.1)
    expected = [float(step(plain)) for _ in range(STEPS)]
    model.load_state_dict(start)
    optimizer, graph, side = torch.optim.SGD(model.parameters(), lr=0.1), torch.cuda.CUDAGraph(), torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step(optimizer)
    torch.cuda.current_stream().wait_stream(side)
    with torch.cuda.graph(graph):
        loss = step(optimizer)
    model.load_state_dict(start)
    losses = []
    for _ in range(STEPS):
        graph.replay()
        losses.append(float(loss))
    points.tell(eager=expected, losses=losses)
    points.take("end", card=True)


def compiled(points):
    """inductor with Triton's kernels, forward and backward."""
    model, optimizer = amp_model()
    model = torch.compile(model)
    points.tell(losses=train(points, model, optimizer, lambda: amp_loss(model)))
    points.take("end", card=True)


def generated(points):
    """transformers' generate with a key and value cache."""
    import transformers

    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=4, n_embd=512, n_head=8)).cuda().eval()
    for number in range(3):
        tokens = model.generate(torch.ones(4, 16, dtype=torch.long, device="cuda"), max_new_tokens=32, do_sample=False,
                                pad_token_id=0)
        points.take(f"request{number}")
    points.tell(tokens=tokens.shape[1])
    points.take("end", card=True)


def key_value_loop(points):
    """A hand-made loop that appends to a cache, for where transformers is missing."""
    layer = nn.MultiheadAttention(512, 8, batch_first=True).cuda().eval()
    keys = torch.zeros(4, 0, 512, device="cuda")
    with torch.inference_mode():
        for number in range(64):
            keys = torch.cat([keys, torch.randn(4, 1, 512, device="cuda")], 1)
            layer(keys[:, -1:], keys, keys)
            if number % 32 == 31:
                points.take(f"token{number}")
    points.tell(cache_bytes=keys.untyped_storage().nbytes())
    points.take("end", card=True)


def served(points):
    """vLLM with a small model of random weights."""
    import json

    import vllm

    folder = pathlib.Path(f"{points.path}.model")
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 512, "intermediate_size": 1024,
        "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 32000,
        "max_position_embeddings": 2048, "torch_dtype": "bfloat16"}))
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    engine = vllm.LLM(str(folder), load_format="dummy", skip_tokenizer_init=True, gpu_memory_utilization=0.1, max_model_len=512)
    engine.generate([{"prompt_token_ids": [1, 2, 3]}], vllm.SamplingParams(max_tokens=16, detokenize=False))
    points.take("end", card=True)


def own_pool(points):
    """torch.cuda.MemPool: segments of a pool that the program asked for."""
    pool = torch.cuda.MemPool()
    outside = torch.ones(8 << 20, device="cuda")
    with torch.cuda.use_mem_pool(pool):
        inside = [torch.ones(5 << 20, device="cuda") for _ in range(4)]
    points.take("made")
    points.tell(pool_bytes=sum(segment["total_size"] for segment in torch.cuda.memory_snapshot()
                               if tuple(segment["segment_pool_id"]) == tuple(pool.id)))
    del inside[1:3], outside
    points.take("end")


def fraction(points):
    """torch refuses by a limit of its own; the card has room."""
    torch.cuda.init()
    total = torch.cuda.mem_get_info()[1]
    torch.cuda.set_per_process_memory_fraction(1 / 64)
    fill(points, total // 256)


def fill(points, bytes_each):
    """Keeps tensors until memory runs out, and tells what the exception's moment was like."""
    kept = []
    asked = {}

    def seen(device, asked_bytes, limit, free):
        asked.update(asked=asked_bytes, allocated=torch.cuda.memory_allocated(), reserved=torch.cuda.memory_reserved())

    torch._C._cuda_attach_out_of_memory_observer(seen)
    try:
        while True:
            kept.append(torch.empty(bytes_each, dtype=torch.uint8, device="cuda"))  # the line that asks
    except torch.OutOfMemoryError as error:
        free, total = torch.cuda.mem_get_info()
        points.tell(message=str(error).split("\n")[0][:400], tensors=len(kept), free=free, total=total, **asked)
    points.take("refused")


def full_card(points):
    """The driver refuses: another process holds nearly all of the card."""
    fill(points, 256 << 20)


def loaded_kernels(points):
    """Kernels of several libraries, each used for the first time, and what the card had in use around that."""
    torch.cuda.init()
    data = torch.ones(1024, 1024, device="cuda")
    points.take("before", card=True)
    first_uses = [lambda: data @ data, data.sort, lambda: data.cumsum(1), lambda: nn.functional.layer_norm(data, (1024,))]
    if not STANDIN:  # where libraries say nothing of the workspace that they need
        first_uses += [lambda: torch.linalg.qr(data), lambda: torch.fft.fft(data)]
    for first_use in first_uses:
        first_use()
    torch.cuda.empty_cache()
    points.take("end", card=True)


WORK = {function.__name__: function for function in (
    training, deterministic, convolutions, collectives, captured, compiled, generated, key_value_loop, served, own_pool, fraction,
    full_card, loaded_kernels)}

if __name__ == "__main__":
    told = Points(pathlib.Path(sys.argv[2]))
    WORK[sys.argv[1]](told)
    told.write()
