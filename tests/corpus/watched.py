#!/usr/bin/env python3
"""Runs a program of repositories.md as it is, and records what can be known of its memory without its help.

    watched.py TRUTH [--inspect] [--stop "6 steps"] [--data NAME]... ROOT SCRIPT [ARGUMENT...]

SCRIPT is a file below ROOT, which modules are imported from too; README.md#2 is the second Python block there. It runs in its folder.
--stop: it ends after so many steps of optimizers, backwards, or calls (of modules from outside of any); calls have marks of their own
then. --data: what repository_data.py puts in place of downloads.

category_truth.Record has the truth at marks: `fwd` where a backward pass begins, `bwd` where it ends, and `step` after an optimizer's
step. All modules and optimizers of the process are watched, with weights that only an optimizer has. The calls of modules tell more:

    input         given to a module that no other module called, made outside of calls, and not saved by autograd
    activation    saved by autograd, and made in a call with gradients
    temporary     alive at no mark, and made in a call with gradients, a backward pass or a step

What else autograd saved, what was alive at no mark, what a call without gradients made, and what torch.autograd.grad returned may be
several things: "may_be" in the truth has these. All else without a role is open (repositories.py).
"""
import argparse
import os
import pathlib
import re
import sys
import weakref

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "torch")]

import torch  # noqa: E402
import torch.utils.weak  # noqa: E402
from torch.nn.modules import module as calls  # noqa: E402
from torch.optim import optimizer as steps  # noqa: E402

import category_truth  # noqa: E402
import children  # noqa: E402
import models  # noqa: E402
import repository_data  # noqa: E402

SAVED, SEEN_NOWHERE = ["activation", "input", "temporary"], ["temporary", "input", "activation"]


class Weights:
    """Those that optimizers have, of no module."""

    def __init__(self, optimizers, modules):
        known = {parameter for module in modules for parameter in module.parameters()}
        self.own = [tensor for optimizer in optimizers for group in optimizer.param_groups for tensor in group["params"]
                    if tensor not in known]

    def parameters(self):
        return self.own

    def buffers(self):
        return ()


def leaves(tensors):
    """What a backward pass from these gives gradients to."""
    waiting = [tensor.grad_fn for tensor in category_truth.tensors_in(tensors) if tensor.grad_fn is not None]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        if hasattr(node, "variable"):
            yield torch.utils.weak.TensorWeakRef(node.variable)
        new = {following for following, _ in node.next_functions if following is not None} - seen
        seen |= new
        waiting += new


class Watched(category_truth.Record):
    def __init__(self, path, stop):
        self.known_modules, self.known_optimizers, self.known_scalers = {}, {}, {}
        self.counts, self.stop = {"steps": 0, "backwards": 0, "calls": 0}, stop
        self.depth, self.backward_depth, self.begun = 0, 0, 0
        self.spans = {"call": [], "free": [], "backward": [], "step": []}  # numbers of blocks: made after the first, up to the second
        super().__init__(os.path.basename(path).removesuffix(".truth"), path)
        self.watch_modules()
        self.watch_calls()
        self.watch_passes()
        steps.register_optimizer_step_pre_hook(self.before_step)
        steps.register_optimizer_step_post_hook(self.after_step)

    # ---- What is watched ----

    def watch_modules(self):
        """Each that is made, copied or read from a file, and scalers of gradients."""
        def adding(original, known):
            def wrapped(made, *arguments, **options):
                known[id(made)] = weakref.ref(made)
                return original(made, *arguments, **options)
            return wrapped

        for name in ("__init__", "__setstate__"):
            setattr(torch.nn.Module, name, adding(getattr(torch.nn.Module, name), self.known_modules))
        torch.amp.GradScaler.__init__ = adding(torch.amp.GradScaler.__init__, self.known_scalers)

    def roots(self):
        modules = [module for module in (known() for known in list(self.known_modules.values())) if module is not None]
        modules = [module for module in modules if "_modules" in module.__dict__]
        inner = {id(child) for module in modules for child in module.children()}
        return [module for module in modules if id(module) not in inner]

    def take(self, name, step, inputs=(), others=()):
        roots = self.roots()
        optimizers = [optimizer for optimizer in (known() for known in self.known_optimizers.values()) if optimizer is not None]
        scalers = [scaler for scaler in (known() for known in self.known_scalers.values()) if scaler is not None]
        library_tensors = [getattr(scaler, name, None) for scaler in scalers for name in ("_scale", "_growth_tracker")]
        self.watch([*roots, Weights(optimizers, roots)], optimizers, library_tensors)
        super().take(name, step, inputs, others)
        self.watch([], [])

    def span(self, kind, first):
        self.spans[kind].append((first, self.made()))

    # ---- Where ----

    def count(self, kind):
        """Of what has just ended."""
        self.counts[kind] += 1
        if self.stop == (self.counts[kind], kind):
            raise SystemExit(0)

    def watch_calls(self):
        calls.register_module_forward_pre_hook(self.before_call)
        calls.register_module_forward_hook(self.after_call, always_call=True)

    def before_call(self, module, arguments):
        self.depth += 1
        if self.depth == 1 and not self.backward_depth:
            self.begun = self.made()
            self.note("argument", [tensor for tensor in category_truth.tensors_in(arguments) if tensor.grad_fn is None and not
                                   tensor.requires_grad])

    def after_call(self, module, arguments, result):
        self.depth -= 1
        if self.depth == 0 and not self.backward_depth:
            self.span("call" if torch.is_grad_enabled() else "free", self.begun)
            if self.stop and self.stop[1] == "calls":
                self.take("call", self.counts["calls"], arguments)
            self.count("calls")

    def pack(self, tensor):
        """Without its node, which would keep it: a graph that nobody runs backward would stay until the collector comes."""
        return super().pack(tensor.detach())

    def watch_passes(self):
        original = torch.autograd.backward

        def backward(*arguments, **options):
            if self.depth or self.backward_depth:  # within another, as of a checkpoint
                return original(*arguments, **options)
            self.take("fwd", self.counts["steps"])
            first, given = self.made(), list(leaves(arguments[0] if arguments else options["tensors"]))
            self.backward_depth += 1
            try:
                original(*arguments, **options)
            finally:
                self.backward_depth -= 1
            self.span("backward", first)
            self.take("bwd", self.counts["steps"], others=[leaf.grad for leaf in (leaf() for leaf in given) if leaf is not None])
            self.count("backwards")

        torch.autograd.backward = backward
        computes = torch.autograd.grad

        def grad(*arguments, **options):
            gradients = computes(*arguments, **options)
            self.note("returned", gradients)
            return gradients

        torch.autograd.grad = grad

    def before_step(self, optimizer, arguments, options):
        self.known_optimizers[id(optimizer)] = weakref.ref(optimizer)
        self.step_begun = self.made()

    def after_step(self, optimizer, arguments, options):
        if not any(map(callable, (*arguments[1:], *options.values()))):  # a closure is the script's
            self.span("step", self.step_begun)
        self.take("step", self.counts["steps"])
        self.count("steps")

    # ---- Putting it together ----

    def document(self):
        document = super().document()
        lives, by_address = document["lives"], {}
        for life in lives:
            by_address.setdefault(life[1], []).append(life)
        saved, given, returned = set(), set(), set()
        for role, number in super().noted(lives, by_address):
            if role == "argument" and number not in saved:
                given.add(number)
            elif role == "activation":
                saved.add(number)
            elif role == "returned":
                returned.add(number)
        within = {kind: {number for first, last in spans for number in range(first + 1, last + 1)} for kind, spans in self.spans.items()}
        at_marks = {block[0] for mark in document["marks"] for block in mark["blocks"]}
        document["may_be"] = {}
        for life in lives:
            life[4], may_be = self.known(life[0], life[4], saved, given, within, at_marks)
            if life[0] in returned and not life[4]:
                may_be = ["gradient", "activation", "temporary"]
            if may_be:
                document["may_be"][life[0]] = may_be
        return document

    def noted(self, lives, by_address):
        """Of those that the truth is made of; the other two are clues only."""
        return ((role, number) for role, number in super().noted(lives, by_address) if role not in ("argument", "returned"))

    @staticmethod
    def known(number, category, saved, given, within, at_marks):
        """(category, [] or what it may be too)."""
        if category not in ("", "activation", "temporary"):
            return category, []
        outside = number not in within["call"] and number not in within["free"]
        if number in given and outside:
            if number in saved:  # a batch, or what is computed of it on the way
                return "", ["input", "activation"]
            return ("input", []) if number in at_marks else ("", ["input", "temporary"])
        if number in saved:
            return ("activation", []) if number in within["call"] else ("", SAVED)
        if number in at_marks:
            return "", ["activation", "temporary"] if number in within["call"] else []
        if any(number in within[kind] for kind in ("call", "backward", "step")):
            return category, []
        return "", SEEN_NOWHERE


def script_of(root, text):
    """The file; a block of a README is written to one."""
    path, _, block = text.partition("#")
    path = (root / path).resolve()
    if block:
        code = re.findall(r"^```python\n(.*?)^```", path.read_text(), re.DOTALL | re.MULTILINE)[int(block) - 1]
        path = path.with_name(f"readme_{block}.py")
        path.write_text(code)
    return path


def step_aside():
    """Modules of ours are not found where the program has its own of the same name."""
    ours = str(HERE.parent)
    sys.path[:] = [path for path in sys.path if not path.startswith(ours)]
    for name, module in list(sys.modules.items()):
        if name != "__main__" and str(getattr(module, "__file__", None)).startswith(ours):
            del sys.modules[name]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("truth")
    parser.add_argument("--inspect", action="store_true")
    parser.add_argument("--stop", default="")
    parser.add_argument("--data", action="append", default=[])
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    asked = parser.parse_args()
    script = script_of(asked.root, asked.script)
    step_aside()
    sys.path.append(str(asked.root.resolve()))
    os.chdir(script.parent)
    models.settings()
    torch.distributions.Distribution.set_default_validate_args(False)  # values are what they are where kernels compute nothing
    for name in asked.data:
        getattr(repository_data, name)(script.parent)
    category_truth.Record.with_inspections = asked.inspect
    number, _, kind = asked.stop.partition(" ")
    stopped, record = None, Watched(asked.truth, (int(number), kind) if number else None)
    try:
        children.script(str(script), *asked.arguments)
    except SystemExit as end:
        if end.code:
            raise
        stopped = end  # and with it what its variables hold
    if not record.marks:
        record.take("end", 0)
    record.write()
    del stopped


if __name__ == "__main__":
    main()
