"""Changes to the program that `dryrun --try` applies from outside, each where PyTorch itself has a seam. VRAMTRACE_DRYRUN_TRY names them:
NAME=VALUE, apart by commas. Each notes what it changed, or why there was nothing to change, for the table at the end.

A change is a function here with its NAME and a row in analyzer/command/dryrun_changes.def."""
import contextlib
import functools
import gc
import importlib
import inspect
import re
import sys
import weakref

from . import say, setting

WRAPPERS = ("module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")  # parts of a path that wrappers add
NAMES = "_vramtrace_names"  # of a root: what holds it
MARK = "_vramtrace_part"  # of a module: "root" = the program calls it, "inner" = another module does


@functools.cache
def note(name, text, applied=True):
    with open(setting("NOTES"), "a") as file:
        file.write(f"{name}\t{'+' if applied else '-'}\t{text}\n")


def wanted():
    """{name: value}"""
    return dict(word.partition("=")[::2] for word in setting("TRY").split(",") if word)


# ---- Modules that the program calls


class Roots:
    """Visits every module below one that the program calls for the first time, and puts contexts around such calls."""

    def __init__(self, torch):
        self.torch, self.visitors, self.contexts, self.parents = torch, [], [], {}
        own, compiling = torch.nn.Module.__call__, getattr(torch.compiler, "is_dynamo_compiling", None) or (lambda: False)

        @functools.wraps(own)
        def call(module, *args, **kwargs):
            if compiling():
                return own(module, *args, **kwargs)
            if MARK not in module.__dict__:
                self.adopt(module)
            if module.__dict__[MARK] == "inner" or not self.contexts or not any(one.is_cuda for one in module.parameters()):
                return own(module, *args, **kwargs)  # also transforms of data, perhaps in a worker
            with contextlib.ExitStack() as stack:
                for context in self.contexts:
                    stack.enter_context(context(module, args, kwargs))
                return own(module, *args, **kwargs)

        torch.nn.Module.__call__ = call

    def adopt(self, root):
        around = self.around(root)
        for path, module in root.named_modules():
            seen = MARK in module.__dict__
            module.__dict__[MARK] = "inner" if path else "root"
            if not seen:
                for visit in self.visitors:
                    visit(around, path, module)

    def around(self, root):
        """[(module, path of ROOT in it)]: itself, and those that hold it and are perhaps never called. Keeps none of them alive."""
        if id(root) not in self.parents:
            modules = [one for one in gc.get_objects() if issubclass(type(one), self.torch.nn.Module)]
            self.parents = {id(one): (None, "") for one in modules} | {
                id(child): (weakref.ref(one), name) for one in modules for name, child in one.__dict__.get("_modules", {}).items()}
        found = [(root, "")]
        while True:
            inner, path = found[-1]
            outer, name = self.parents.get(id(inner), (None, ""))
            outer = outer and outer()
            if outer is None or outer._modules.get(name) is not inner or any(outer is one for one, _ in found):
                return found
            found.append((outer, f"{name}.{path}".rstrip(".")))


def paths_of(around, path):
    """As reports may call it: from a module around it, from a variable that holds that."""
    whole = [(top, ".".join(part for part in f"{before}.{path}".split(".") if part and part not in WRAPPERS)) for top, before in around]
    yield from (inner for _, inner in whole)
    yield from (f"{name}.{inner}".rstrip(".") for top, inner in whole for name in names_of(top))


def names_of(root):
    """Of variables and attributes that hold it, and its class's: reports begin paths so where there are several roots."""
    if NAMES not in root.__dict__:
        holders, frame = [one if isinstance(one, dict) else getattr(one, "__dict__", {}) for one in gc.get_referrers(root)], sys._getframe()
        names = {type(root).__name__, *(name for one in holders for name, value in list(one.items()) if value is root)}
        while frame:
            if frame.f_globals is not globals():
                names |= names_in(frame, root)
            frame = frame.f_back
        root.__dict__[NAMES] = names
    return root.__dict__[NAMES]


def names_in(frame, root):
    """Before Python 3.13 a frame keeps the copy of its variables that is made here, and that would keep its tensors."""
    before = {id(one) for one in gc.get_referents(frame) if type(one) is dict}
    variables = frame.f_locals
    names = {name for name, value in list(variables.items()) if value is root}
    if type(variables) is dict and frame.f_code.co_flags & inspect.CO_OPTIMIZED and id(variables) not in before:
        variables.clear()  # the program has never asked for it
    return names


def of_paths(pattern):
    """`*` is one part of a path, `**` is any."""
    parts = re.split(r"(\*\*|\*)", pattern)
    return re.compile("".join({"*": "[^.]+", "**": ".+"}.get(part) or re.escape(part) for part in parts))


def checkpoint(torch, roots, pattern):
    paths = of_paths(pattern)
    unimplemented = torch.nn.Module.forward

    def visit(around, path, module):
        if not any(map(paths.fullmatch, paths_of(around, path))):
            return
        if type(module).forward is unimplemented:  # a ModuleList or ModuleDict
            return note("checkpoint", f"{path} is a {type(module).__name__}, which has no forward()", applied=False)
        note("checkpoint", path)
        from torch.utils.checkpoint import checkpoint
        run = functools.partial(checkpoint, use_reentrant=False)
        if any(cls.__name__ == "GradientCheckpointingLayer" for cls in type(module).__mro__):  # of transformers; it knows of caches
            module._gradient_checkpointing_func = run
            for one in around[-1][0].modules():
                if hasattr(one, "gradient_checkpointing") and any(part is module for part in one.modules()):
                    one.gradient_checkpointing = True  # also of the model around it, which then makes no cache
            return
        replaced, alive = module.__dict__.get("forward"), weakref.ref(module)

        @functools.wraps(type(module).forward)
        def forward(*args, **kwargs):  # without a cycle: the module lives as long as it would
            called = alive()
            inner = replaced or functools.partial(type(called).forward, called)
            if not (torch.is_grad_enabled() and called.training):
                return inner(*args, **kwargs)
            return run(inner, *args, **kwargs)
        module.forward = forward

    roots.visitors.append(visit)


def inplace(torch, roots, value):
    def visit(around, path, module):
        if getattr(module, "inplace", None) is False:
            module.inplace = True
            note("inplace", path)
    roots.visitors.append(visit)


def bf16(torch, roots, value):
    """Autocast from the model's call to backward(), as scripts have it, so that the loss is inside."""
    active, own = [], torch.autograd.backward

    def leave():
        if active:
            active.pop().__exit__(None, None, None)

    @contextlib.contextmanager
    def context(root, args, kwargs):
        if torch.is_autocast_enabled() and not active:
            note("bf16", "autocast is on already", applied=False)
        elif not active:
            active.append(torch.autocast("cuda", dtype=torch.bfloat16))
            active[0].__enter__()
            note("bf16", type(root).__name__)
        yield
        if not (torch.is_grad_enabled() and root.training):
            leave()

    @functools.wraps(own)
    def backward(*args, **kwargs):
        leave()
        return own(*args, **kwargs)

    roots.contexts.append(context)
    torch.autograd.backward = backward


def no_grad(torch, roots, value):
    """Models in evaluation mode, unless somebody wants the gradient of their input."""
    def wants_gradient(values):
        return any(isinstance(one, torch.Tensor) and one.requires_grad for one in values)

    def context(root, args, kwargs):
        if root.training or not torch.is_grad_enabled() or wants_gradient((*args, *kwargs.values())):
            return contextlib.nullcontext()
        note("no_grad", type(root).__name__)
        return torch.no_grad()
    roots.contexts.append(context)


def offload(torch, roots, value):
    def context(root, args, kwargs):
        if not (root.training and torch.is_grad_enabled()):
            return contextlib.nullcontext()
        note("offload", type(root).__name__)
        return torch.autograd.graph.save_on_cpu(pin_memory=True)
    roots.contexts.append(context)


# ---- Optimizers


def of_optimizers(torch, parameter, change):
    """Calls change(class's name, arguments) before a constructor of torch.optim that has the parameter."""
    for cls in {one for one in vars(torch.optim).values() if isinstance(one, type)}:
        if parameter not in inspect.signature(cls.__init__).parameters:
            continue

        def wrap(cls, own):
            signature = inspect.signature(own)

            @functools.wraps(own)
            def __init__(self, *args, **kwargs):
                bound = signature.bind(self, *args, **kwargs)
                change(cls.__name__, bound.arguments)
                own(*bound.args, **bound.kwargs)
            cls.__init__ = __init__
        wrap(cls, cls.__init__)


def foreach(torch, roots, value):
    def change(name, arguments):
        if arguments.get("fused"):
            return note("foreach", f"{name} is fused", applied=False)
        if arguments.get("foreach") is False:
            return note("foreach", f"{name} has foreach=False", applied=False)
        arguments["foreach"] = False
        note("foreach", name)
    of_optimizers(torch, "foreach", change)


def fused(torch, roots, value):
    def change(name, arguments):
        if arguments.get("fused"):
            return note("fused", f"{name} is fused already", applied=False)
        arguments.update(fused=True, foreach=None)
        note("fused", name)
    of_optimizers(torch, "fused", change)


def zero_grad(torch, roots, value):
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def after(optimizer, args, kwargs):
        if any(parameter.grad is not None for group in optimizer.param_groups for parameter in group["params"]):
            note("zero_grad", type(optimizer).__name__)
        optimizer.zero_grad(set_to_none=True)
    register_optimizer_step_post_hook(after)


OPTIMIZERS = {"adamw8bit": "bitsandbytes.optim AdamW8bit", "adam8bit": "bitsandbytes.optim Adam8bit",
              "lion8bit": "bitsandbytes.optim Lion8bit", "pagedadamw8bit": "bitsandbytes.optim PagedAdamW8bit",
              "adafactor": "torch.optim Adafactor", "sgd": "torch.optim SGD"}


def optimizer(torch, roots, value):
    module, name = OPTIMIZERS[value].split()

    def replace(cls):
        def __new__(this, *args, **kwargs):
            if this is not cls:
                return object.__new__(this)
            try:
                other = getattr(importlib.import_module(module), name)
            except (ImportError, AttributeError):
                note("optimizer", f"{module.partition('.')[0]} has no {name} here", applied=False)
                return object.__new__(this)
            bound = inspect.signature(cls.__init__).bind(None, *args, **kwargs).arguments
            known = inspect.signature(other.__init__).parameters
            note("optimizer", f"{name}, was {cls.__name__}")
            return other(**{key: bound[key] for key in ("params", "lr", "weight_decay") if key in bound and key in known})
        cls.__new__ = staticmethod(__new__)
    for cls in (torch.optim.Adam, torch.optim.AdamW):
        replace(cls)


# ---- Calls


def need_weights(torch, roots, value):
    own = torch.nn.MultiheadAttention.forward

    @functools.wraps(own)
    def forward(self, query, key, value, key_padding_mask=None, need_weights=True, *args, **kwargs):
        if need_weights:
            note("need_weights", type(self).__name__)
        return own(self, query, key, value, key_padding_mask, False, *args, **kwargs)
    torch.nn.MultiheadAttention.forward = forward


def batch(torch, roots, value):
    """The first loader's batch has this size, others' change alike; /2 divides all."""
    note("batch", "no DataLoader was made", applied=False)
    own, factor = torch.utils.data.DataLoader.__init__, []
    signature = inspect.signature(own)

    @functools.wraps(own)
    def __init__(self, *args, **kwargs):
        bound = signature.bind(self, *args, **kwargs)
        before = bound.arguments.get("batch_size", 1)
        if before and not bound.arguments.get("batch_sampler"):
            if not factor:
                factor.append(1 / float(value[1:]) if value.startswith("/") else int(value) / before)
            bound.arguments["batch_size"] = after = max(1, round(before * factor[0]))
            note("batch", f"{after}, was {before}" if after != before else f"{after}")
        own(*bound.args, **bound.kwargs)
    torch.utils.data.DataLoader.__init__ = __init__


def attention(modeling_utils, value):
    """Of transformers: models that were made with another implementation."""
    own = modeling_utils.PreTrainedModel.__init__

    @functools.wraps(own)
    def __init__(self, config, *args, **kwargs):
        before = getattr(config, "_attn_implementation", None)
        if before not in (None, value):
            note("attention", f"{type(self).__name__}: {value}, was {before}")
            config._attn_implementation = value
        own(self, config, *args, **kwargs)
    modeling_utils.PreTrainedModel.__init__ = __init__


OF_ROOTS = (checkpoint, inplace, bf16, no_grad, offload)
OTHERS = (foreach, fused, zero_grad, optimizer, need_weights, batch)


def install(module):
    changes = wanted()
    if module.__name__ == "transformers.modeling_utils":
        if "attention" in changes:
            attention(module, changes["attention"])
        return
    roots = Roots(module) if any(change.__name__ in changes for change in OF_ROOTS) else None
    for change in (*OF_ROOTS, *OTHERS):
        if change.__name__ in changes:
            try:
                change(module, roots, changes[change.__name__])
            except Exception as error:
                note(change.__name__, f"{type(error).__name__}: {error}", applied=False)
                say(f"{change.__name__} cannot be changed: {type(error).__name__}: {error}")
