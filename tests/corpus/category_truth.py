"""What every block of device memory truly is, learnt by a training script about itself.

    record = Record("name", "truth.json")     before anything is on the device
    record.watch([model], [optimizer])        what is true from now on
    record.hold("kv_cache", give)             so is this: give() lists tensors, whatever they are packed in, at each mark
    record.take("fwd", step, (inputs, ...))   at a mark: whose storages lie in which block
    record.write()

Nothing here comes from vramtrace, and nothing here allocates device memory. A block is known by its number: how many
blocks the allocator had handed out when it made this one (torch.cuda.memory_stats()["allocation.all.allocated"]).

    kv_cache, parameter, buffer, gradient, optimizer_state, checkpoint_copy, input, workspace, communication
                  at some mark the storage of such a tensor lay in the block (the first in this order, for its whole
                  life). Workspaces are what the allocator gets back when PyTorch is asked to drop them, last of all or by a
                  trainer (in a process that will be killed, or where PyTorch takes one for each call, what PyTorch's history
                  says it allocated for them);
                  what is sent, and copies of weights, are told by Record.note or
                  Record.hold. A buffer of a module that is a cache of keys and values is kv_cache.
    ""            else, if the script says so (Record.hold("open", give)): tensors that it keeps for itself from step to step, whether
                  autograd saves them or not.
    activation    else, if autograd saved a tensor in it: torch.autograd.graph.saved_tensors_hooks saw it being packed,
                  or torch.utils.checkpoint put it aside when it ran a forward again.
    temporary     else, if it was alive at no mark, no backward began at it, and it was not made while
                  Record.free_choice held.
    ""            else: what variables of the script hold (outputs, losses, metrics) and what runs without gradients. No
                  introspection tells more (judge.py says what is right then).

What people could call by two names has one here:

- Keys and values kept from token to token are kv_cache, also where a module registers them as buffers, or where autograd
  saves them.
- Weights are parameter wherever they lie: those gathered from shards, full precision masters that an optimizer owns as its
  param_groups, quantized ones with their scales, those of a second, frozen or averaged model.
- checkpoint_copy: a copy of weights or of optimizer state that no model and no optimizer works with: what was read from a
  file and kept, a snapshot, the best so far, averages kept as plain tensors. What load_state_dict adopts is no copy.
- A buffer that gradients are reduced in is communication, unless some .grad is a view of it: then gradient.
- What a collective is given stays what it was computed as: the whole gradient of a sharded weight is temporary, although only its
  sum over the processes is kept.
- A batch is input in every form in which the script holds it: as loaded, as rows picked from data that is kept on the device, and
  that data itself; encoded or as targets too, if that was computed without gradients.

The truth file: {"model", "steps", "context_bytes", "killed", "peak_bytes", "lives": [[number, address, made, freed, category]...],
"own_states": [number...], "names": {number: [name...]}, "marks": [MARK...]}. `names` are those of parameters and buffers in their
modules, for the blocks of these, of their gradients and of their optimizer state. `own_states`: optimizer state that is no
torch.optim.Optimizer's but the script's own. `made` and `freed` are positions in the allocator's own history (its allocations and
frees, counted from 0; freed is null for what is alive at the end). A MARK has "name", "step", "position", what PyTorch and the driver
count ("allocated", "reserved", "driver_bytes", ...), and "blocks": [[number, address, bytes]...], all that are alive, with their true
sizes.
"""
import bisect
import contextlib
import gc
import itertools
import json
import os
import signal
import sys
import time

import torch
import torch.utils.checkpoint

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "torch"))
import models  # noqa: E402
import train_script  # noqa: E402

PROCESS_GROUP_SECONDS, AUTOGRAD_SECONDS = 0.05, 0.02  # that their threads let nothing go
ROLES = ("kv_cache", "parameter", "buffer", "gradient", "optimizer_state", "own_state", "checkpoint_copy", "input", "workspace",
         "communication", "open", "activation")


def tensors_in(value):
    """The tensors in a batch, however it is packed."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict) or hasattr(value, "values") and callable(value.values):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)


def flat(tensors):
    """A sparse tensor has two others inside."""
    for tensor in tensors:
        if isinstance(tensor, torch.Tensor) and tensor.layout == torch.sparse_coo:
            yield from (tensor._indices(), tensor._values())
        else:
            yield tensor


class Saved:
    """A tensor that autograd keeps for backward."""

    __slots__ = ("tensor",)

    def __init__(self, tensor):
        self.tensor = tensor


class Record:
    with_names = False  # marks have "tensors" too: those of what is watched, by name
    with_inspections = False  # the first mark of each name also requests an inspection of live objects

    def __init__(self, name, path, device=0):
        self.name, self.path, self.device = name, path, device
        self.modules, self.optimizers, self.library_tensors = [], [], []
        self.held, self.names = [], []
        self.marks, self.roles, self.notes, self.free_choices = [], [], [], []
        self.mark, self.inspect = train_script.load_mark(), train_script.load_mark("vramtrace_inspect")
        self.driver = train_script.DriverTruth()
        # A process that is killed cannot clear its workspaces, and a new PyTorch takes one for each call: there the history's
        # stacks tell them.
        self.is_killed = name.startswith("killed")
        with_stacks = self.is_killed or tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 12)
        torch.cuda.memory._record_memory_history(context="alloc" if with_stacks else None, stacks="all", max_entries=10**7)
        self.hooks = torch.autograd.graph.saved_tensors_hooks(self.pack, lambda saved: saved.tensor)
        self.hooks.__enter__()
        self.watch_checkpoints()
        self.watch_backward()
        self.watch_workspaces()

    # ---- Between marks ----

    def note(self, role, tensors):
        """What tensors are that may be gone at the next mark."""
        self.notes += [(role, self.made(), address) for address in self.addresses(tensors)]

    def pack(self, tensor):
        self.note("activation", [tensor])
        return Saved(tensor)

    def watch_checkpoints(self):
        """What a checkpoint computes again is packed by hooks of its own, which hide ours."""
        original, note = torch.utils.checkpoint._recomputation_hook.__init__, self.note

        def watched(hook, *arguments, **options):
            original(hook, *arguments, **options)
            pack = hook.pack_hook

            def pack_hook(tensor):
                note("activation", [tensor])
                return pack(tensor)

            hook.pack_hook = pack_hook

        torch.utils.checkpoint._recomputation_hook.__init__ = watched

    def watch_backward(self):
        """Who calls backward holds what it begins at, as a checkpoint does when it runs one within another."""
        original = torch.autograd.backward

        def backward(tensors, *arguments, **options):
            self.note("held", tensors_in(tensors))
            return original(tensors, *arguments, **options)

        torch.autograd.backward = backward

    def watch_workspaces(self):
        """What PyTorch frees when it is asked to drop them held them."""
        original = torch._C._cuda_clearCublasWorkspaces

        def clear():
            made, before = self.made(), {address for address, _ in self.blocks()}
            original()
            self.notes += [("workspace", made, address)
                           for address in before - {address for address, _ in self.blocks()}]

        torch._C._cuda_clearCublasWorkspaces = clear

    # ---- What is true ----

    def watch(self, modules, optimizers=(), library_tensors=()):
        """MODULES have parameters() and buffers(), OPTIMIZERS have .state; LIBRARY_TENSORS: a scaler's and the like."""
        self.modules, self.optimizers = list(modules), list(optimizers)
        self.library_tensors = list(library_tensors)

    def hold(self, role, give):
        """GIVE() gives what else the script holds at a mark: tensors of this role, in lists, dicts and the like."""
        self.held.append((role, give))

    @contextlib.contextmanager
    def free_choice(self):
        """Without gradients: nothing tells an activation from a temporary."""
        first = self.made()
        yield
        self.free_choices.append((first, self.made()))

    @contextlib.contextmanager
    def without_hooks(self):
        """torch.func's gradients refuse hooks of saved tensors: what they keep on the way is left open."""
        self.hooks.__exit__(None, None, None)
        with self.free_choice():
            yield
        self.hooks.__enter__()

    def made(self):
        """The number of the block that was made last."""
        return torch._C._cuda_memoryStats(self.device)["allocation"]["all"]["allocated"]

    def tensors(self, inputs, gradients):
        """(role, tensors) of all that is known now."""
        parameters = [parameter for module in self.modules for parameter in module.parameters()]
        inputs = list(tensors_in(inputs))
        yield "parameter", parameters
        yield "buffer", [buffer for module in self.modules for buffer in module.buffers()]
        yield "gradient", [tensor.grad for tensor in parameters + inputs if tensor.is_leaf] + list(gradients)
        for optimizer in self.optimizers:
            of_library = isinstance(optimizer, torch.optim.Optimizer)
            yield "optimizer_state" if of_library else "own_state", tensors_in(list(optimizer.state.values()))
        yield "input", inputs
        yield "workspace", self.library_tensors
        for role, give in self.held:
            yield "own_state" if role == "optimizer_state" else role, tensors_in(give())

    def named_tensors(self):
        """(name, tensors): each parameter and buffer, with its gradient and state."""
        for module in self.modules:
            for name, buffer in getattr(module, "named_buffers", tuple)():
                yield name, [buffer]
            for name, parameter in getattr(module, "named_parameters", tuple)():
                states = [optimizer.state[parameter] for optimizer in self.optimizers if parameter in optimizer.state]
                yield name, [parameter, parameter.grad if parameter.is_leaf else None, *tensors_in(states)]

    def take(self, name, step, inputs=(), others=()):
        """OTHERS: gradients that are in no tensor's .grad; no name here tells an inspection that they are."""
        collects = gc.isenabled()
        gc.disable()  # between the mark and the list of blocks it would free some
        self.take_now(name, step, inputs, others)
        if collects:
            gc.enable()

    def take_now(self, name, step, inputs, others):
        inspects = self.with_inspections and all(mark["name"] != name for mark in self.marks)
        self.wait_for_threads(inspects)
        stats = torch._C._cuda_memoryStats(self.device)
        (self.inspect if inspects else self.mark)(name)
        blocks = self.blocks()
        self.roles.append([(role, address) for role, tensors in self.tensors(inputs, others)
                           for address in self.addresses(tensors)])
        self.names.append([(name, address) for name, tensors in self.named_tensors() for address in self.addresses(tensors)])
        self.marks.append({
            "name": name,
            "step": step,
            "position": stats["allocation"]["all"]["allocated"] + stats["allocation"]["all"]["freed"],
            "allocated": stats["allocated_bytes"]["all"]["current"],
            "max_allocated": stats["allocated_bytes"]["all"]["peak"],
            "reserved": stats["reserved_bytes"]["all"]["current"],
            **self.driver.of(self.device),
            "blocks": blocks,
        })
        if self.with_names:
            self.marks[-1]["tensors"] = train_script.tensors_by_name(self.modules, self.optimizers)
        assert self.made() == stats["allocation"]["all"]["allocated"], "taking the truth must not allocate"

    def wait_for_threads(self, inspects):
        """Threads of a process group, and autograd's, let go of a tensor a little after they have woken who waits for it: until
        nothing has been freed for a while. Autograd's do so at once, but an inspection gives them time between the mark and the
        list of blocks."""
        seconds = PROCESS_GROUP_SECONDS if torch.distributed.is_initialized() else AUTOGRAD_SECONDS if inspects else 0
        freed = None
        while seconds and freed != (freed := torch._C._cuda_memoryStats(self.device)["allocation"]["all"]["freed"]):
            time.sleep(seconds)

    def blocks(self):
        """(address, bytes) of what is allocated, in order of address."""
        blocks = []
        for segment in torch.cuda.memory_snapshot():
            if segment["device"] != self.device:
                continue
            for block in segment["blocks"]:
                if block["state"] == "active_allocated":
                    blocks.append((block["address"], block["size"]))
        return sorted(blocks)

    def addresses(self, tensors):
        for tensor in flat(tensors):
            if hasattr(tensor, "__tensor_flatten__"):  # of others: a shard (DTensor), quantized weights and their scales
                yield from self.addresses(getattr(tensor, inner) for inner in tensor.__tensor_flatten__()[0])
            elif isinstance(tensor, torch.Tensor) and tensor.is_cuda and tensor.device.index == self.device:
                yield tensor.untyped_storage().data_ptr()

    # ---- Putting it together ----

    def lives(self):
        """[number, address, made, freed, asked bytes] of every block, from the allocator's history."""
        lives, alive, position = [], {}, 0
        for event in torch.cuda.memory._snapshot()["device_traces"][self.device]:
            if event["action"] == "alloc":
                alive[event["addr"]] = len(lives)
                lives.append([len(lives) + 1, event["addr"], position, None])
                if any(word in frame["name"] for frame in event.get("frames", ())
                       for word in ("getNewWorkspace", "BlasWorkspace", "BlasLtWorkspace", "BlasHandle")):
                    self.notes.append(("workspace", len(lives), event["addr"]))
            elif event["action"] == "free_requested":
                lives[alive.pop(event["addr"])][3] = position
            else:
                continue
            position += 1
        return lives

    def settle(self):
        lives = self.lives()
        assert len(lives) == self.made(), "the history is not whole"
        categories = [""] * (len(lives) + 1)
        by_address = {}
        for life in lives:
            by_address.setdefault(life[1], []).append(life)
        at_marks = set()
        self.names_of = {}

        def set_role(number, role):
            known = categories[number]
            if not known or ROLES.index(role) < ROLES.index(known):
                categories[number] = role

        def alive_at(address, position):
            made = by_address[address]
            life = made[bisect.bisect_left(made, position, key=lambda life: life[2]) - 1]
            assert life[2] < position and (life[3] is None or life[3] >= position), "the history and the snapshot differ"
            return life[0]

        for mark, roles, names in zip(self.marks, self.roles, self.names):
            blocks = mark["blocks"] = [(alive_at(address, mark["position"]), address, size)
                                       for address, size in mark["blocks"]]
            at_marks.update(number for number, _, _ in blocks)
            starts = [address for _, address, _ in blocks]

            def holding(address):
                index = bisect.bisect_right(starts, address) - 1
                return blocks[index][0] if index >= 0 and address < starts[index] + blocks[index][2] else None

            for role, address in roles:
                if (number := holding(address)) is not None:
                    set_role(number, role)
            for name, address in names:
                if (number := holding(address)) is not None:
                    self.names_of.setdefault(number, {})[name] = True
        held = set()
        for role, number in self.noted(lives, by_address):
            if role == "held":
                held.add(number)
            else:
                set_role(number, role)
        for number, *_ in lives:
            free = any(first < number <= last for first, last in self.free_choices)
            if not categories[number] and number not in at_marks and number not in held and not free:
                categories[number] = "temporary"
        self.own_states = [number for number, *_ in lives if categories[number] == "own_state"]
        return [life + [{"own_state": "optimizer_state", "open": ""}.get(categories[life[0]], categories[life[0]])] for life in lives]

    def noted(self, lives, by_address):
        """(role, number) of notes: the block that holds an address is the last alive then that begins at it or below."""
        addresses = sorted(by_address)
        for role, made, address in self.notes:
            for start in reversed(addresses[:bisect.bisect_right(addresses, address)]):
                index = bisect.bisect_right(by_address[start], made, key=lambda life: life[0]) - 1
                life = by_address[start][index]
                if index >= 0 and (life[3] is None or life[3] > lives[made - 1][2]):
                    yield role, life[0]
                    break

    def document(self):
        lives = self.settle()
        return {
            "model": self.name,
            "steps": len(list(itertools.groupby(self.marks, lambda mark: mark["step"]))),
            "context_bytes": self.driver.context_bytes(self.device),
            "killed": self.is_killed,
            "peak_bytes": torch.cuda.max_memory_allocated(self.device),
            "lives": lives,
            "own_states": self.own_states,
            "names": {number: list(names) for number, names in self.names_of.items()},
            "marks": self.marks,
        }

    def write(self):
        if not self.is_killed:
            torch._C._cuda_clearCublasWorkspaces()
        with open(self.path, "w") as out:
            json.dump(self.document(), out)
        self.hooks.__exit__(None, None, None)
        if not self.is_killed:
            models.finish_backward()

    def die(self):
        """Killed as by the kernel for want of memory: nothing of this process gets to run any more."""
        self.write()
        time.sleep(0.5)  # what was met last has its names written by then, as in any run that is not this short
        os.kill(os.getpid(), signal.SIGKILL)
