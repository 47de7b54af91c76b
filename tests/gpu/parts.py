"""All parts, in the order in which they run: what teaches most comes first, what needs a quiet machine last."""
import dataclasses
import typing

NO_STANDIN = "gpu"  # a need: the stand-in cannot do this


@dataclasses.dataclass(frozen=True)
class Part:
    name: str
    what: str
    judge: tuple[str, str]  # a module of judges/, and what to evaluate there
    seconds: int  # its limit
    needs: tuple[str, ...] = ()  # gpu, or a Python module
    alone: bool = True  # no other part beside it: it reads the card's own figures, or times something

    def load(self) -> typing.Callable:
        import importlib

        module, expression = self.judge
        return eval(expression, vars(importlib.import_module(f"judges.{module}")))


def part(name, what, module, expression, seconds, *needs, alone=True):
    return Part(name, what, (module, expression), seconds, needs, alone)


def beside(*arguments):
    return part(*arguments, alone=False)


TORCH = "torch"
PARTS = (
    part("first-allocation", "Before the first allocation: the context's bytes; costs of cuMemAlloc, cuMemGetInfo and NVML", "calls",
         "first_allocation", 30),
    part("families", "Every family of driver functions, against the program's own books", "calls", "families", 60),
    part("runtime", "The shared runtime: which driver function each call ends in, each once", "calls", "runtime", 30),
    part("training", "A training: torch's counters, and every byte of the card", "work", "work('training', counters, card)", 60, TORCH),
    part("convolutions", "cuDNN with benchmarked algorithms and their workspaces", "work", "work('convolutions', counters, card)", 60,
         TORCH, "torchvision", NO_STANDIN),
    part("collectives", "NCCL with one rank", "work", "work('collectives', counters, card, library('NCCL'))", 60, TORCH, NO_STANDIN),
    part("graph", "A training step as a CUDA graph in a private pool", "work", "work('captured', counters, card, graph_pool)", 60,
         TORCH),
    part("namespace", "The training in a namespace of processes, as a container has", "work", "in_namespace", 60, TORCH),
    part("lazy-loading", "Kernels loaded at first use, beside CUDA_MODULE_LOADING=EAGER", "work", "lazy_loading", 90, TORCH),
    part("local-memory", "A kernel whose stack grows at its launch", "calls", "local_memory", 30, NO_STANDIN),
    part("every-call", "Which driver functions take memory: cuMemGetInfo around every call of every one", "work", "every_call", 120,
         TORCH, NO_STANDIN),
    part("full-card", "A card that another process holds nearly all of: the driver refuses", "ends", "full_card", 90, TORCH),
    part("compiled", "inductor with Triton", "work", "work('compiled', counters, card, named)", 100, TORCH, "triton"),
    beside("static-runtime", "NVIDIA's static runtime, by nvcc", "calls", "static_runtime", 60, NO_STANDIN),
    beside("sharing", "Two processes share memory by IPC handle and by descriptor", "calls", "shared_memory", 30),
    beside("same-results", "Losses, parameters and random numbers to the bit, with and without", "work", "same_results", 60, TORCH),
    beside("fraction", "torch refuses by a limit of its own", "work", "refused", 60, TORCH),
    beside("expandable", "Expandable segments", "work",
           "work('training', counters, PYTORCH_ALLOC_CONF='expandable_segments:True')", 60, TORCH),
    beside("driver-pool", "backend:cudaMallocAsync", "work", "work('training', driver_pool, PYTORCH_ALLOC_CONF='backend:cudaMallocAsync')",
           60, TORCH),
    beside("own-pool", "torch.cuda.MemPool", "work", "work('own_pool', counters, pool_segments)", 60, TORCH),
    beside("generate", "transformers' generate", "work", "work('generated', counters)", 90, TORCH, "transformers"),
    beside("key-values", "A hand-made loop with a cache of keys and values", "work", "work('key_value_loop', counters)", 60, TORCH),
    beside("served", "vLLM with a small model", "work", "work('served', counters)", 120, TORCH, "vllm", NO_STANDIN),
    beside("cupy", "CuPy's pool", "frameworks", "cupy", 60, "cupy", NO_STANDIN),
    beside("jax", "JAX: each live array", "suites",
           "suite('tests/frameworks/test_jax.py', XLA_PYTHON_CLIENT_PREALLOCATE='false')", 90, "jax", NO_STANDIN),
    beside("bytes", "Six trainings: counters, categories, peak", "suites", "suite('tests/torch/test_bytes.py')", 150, TORCH),
    beside("history", "Event by event against PyTorch's own history", "suites", "suite('tests/torch/test_history.py')", 90, TORCH),
    beside("graph-pools", "Private pools against PyTorch's snapshot", "suites", "suite('tests/torch/test_graph_pools.py')", 60, TORCH),
    beside("join", "Backward and its forward", "suites", "suite('tests/torch/test_join.py')", 90, TORCH),
    beside("categories", "Categories of every block of five trainings", "suites",
           "suite(*(f'tests/corpus/test_categories.py::test_training[inspections-{name}]' for name in"
           " ('resnet50', 'gpt2', 'gpt2_checkpointing', 'transformer_encoder_amp', 'peft_lora')), VRAMTRACE_LONG='1')", 150, TORCH),
    beside("killed", "SIGKILL in the middle of training", "suites",
           "suite('tests/faults/test_killed.py', '-k', 'test_killed_while_training', VRAMTRACE_KILLS='5')", 90, TORCH),
    part("fits", "Trainings of well-known models: what they need, as truth for runs without a GPU", "fits", "fits", 200, TORCH,
         "transformers", "torchvision", NO_STANDIN),
    part("cost", "What recording costs beside PyTorch's own recorder", "cost", "cost", 190, TORCH),
)
