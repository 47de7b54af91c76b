"""One process plays rank R of N (VRAMTRACE_DRYRUN_RANK, _WORLD): PyTorch's own NCCL process group, without the other ranks.

Each of them is taken to hold what this one holds. simulate/nccl.c does so with messages; here it is done with what lies beside NCCL: the
store, gloo, objects, symmetric memory, and processes that a program starts for its ranks. Where ranks are played side by side, what
they send to each other travels."""
import ctypes
import functools
import hashlib
import inspect
import os
import pickle
import re
import sys

from . import say, setting

ID_BYTES = 128  # of NCCL


def begin():
    """At the start of Python: below a launcher, one of its processes plays the rank and the others leave."""
    ranks = int(os.environ.get("LOCAL_WORLD_SIZE") or 1)
    if int(os.environ.get("LOCAL_RANK") or 0) % ranks != int(setting("RANK", "0")) % ranks:
        os._exit(0)
    played = {"RANK": setting("RANK", "0"), "WORLD_SIZE": setting("WORLD"), "TORCHELASTIC_RUN_ID": setting("RUN")}
    if any(os.environ.get(name) != value for name, value in played.items()):
        os.environ.update(played)
        with open("/proc/self/cmdline", "rb") as words:  # from the beginning: the recorder has read its environment
            os.execv(sys.executable, [os.fsdecode(word) for word in words.read().split(b"\0")[:-1]])


def replace(function, *modules):
    """Wherever these modules have it by its name."""
    for module in modules:
        if hasattr(module, function.__name__):
            setattr(module, function.__name__, function)


def bound(function, args, kwargs):
    """Its arguments by name."""
    call = inspect.signature(function).bind(*args, **kwargs)
    call.apply_defaults()
    return call.arguments


class World:
    def __init__(self, torch):
        import torch.distributed.device_mesh as device_mesh
        from torch.distributed import distributed_c10d as c10d
        self.torch, self.dist, self.c10d, self.modules = torch, torch.distributed, c10d, (torch.distributed, c10d, device_mesh)
        self.rank, self.size = int(setting("RANK", "0")), int(setting("WORLD"))
        self.groups, self.objects = {}, {}
        self.nccl = ctypes.CDLL("libnccl.so.2")
        self.nccl.standin_nccl_tell.argtypes = [ctypes.c_char_p, ctypes.c_uint64, ctypes.c_int, ctypes.POINTER(ctypes.c_int)]

    def install(self):
        self.store = make_stores(self)
        self.watch_groups()
        self.replace_start()
        self.replace_objects()
        self.replace_gloo()
        self.replace_symmetric_memory()

    # ---- Groups

    def tell_communicator(self, key, unique):
        """libnccl: who is in the communicator of this id. The key in the store ends in "GROUP//DEVICE//" and a count, or "A:B" for two
        ranks of the group."""
        parts = [part.rpartition("/")[2] for part in key.split("//")]
        ranks = next((self.groups[part] for part in reversed(parts[:-1]) if part in self.groups), None)
        pair = re.fullmatch(r"(\d+):(\d+)", parts[-1])
        if ranks and pair:
            ranks = [ranks[int(pair[1])], ranks[int(pair[2])]]
        number = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "little")
        self.nccl.standin_nccl_tell(unique, number, len(ranks or ()), numbers(ranks or ()))

    def tell_split(self, ranks):
        self.nccl.standin_nccl_tell_split(len(ranks), numbers(ranks))

    def note_group(self, ranks):
        """Beside what libnccl notes: it sees a group only when its communicator is made."""
        with open(os.path.join(os.environ["VRAMTRACE_STANDIN_ROOMS"], f"rank-{self.rank}"), "a") as file:
            file.write(f"known {' '.join(map(str, ranks))}\n")

    def watch_groups(self):
        c10d, make, split = self.c10d, self.c10d._new_process_group_helper, getattr(self.c10d, "split_group", None)

        @functools.wraps(make)
        def _new_process_group_helper(*args, **kwargs):
            told = bound(make, args, kwargs)
            ranks = list(told["global_ranks_in_group"]) or list(range(told["group_size"]))
            self.groups[str(told.get("group_name"))] = ranks
            if self.rank in ranks:
                self.note_group(ranks)
                self.tell_split(ranks)
            return make(*args, **kwargs)

        c10d._new_process_group_helper = _new_process_group_helper
        if split is None:
            return

        @functools.wraps(split)
        def split_group(*args, **kwargs):
            told = bound(split, args, kwargs)
            parent = told["parent_pg"] or c10d._get_default_group()
            mine = next((ranks for ranks in told["split_ranks"] or () if parent.rank() in ranks), None)
            if mine:
                mine = [c10d.get_global_rank(parent, rank) for rank in mine]
                self.tell_split(mine)
            group = split(*args, **kwargs)
            if mine:
                self.note_group(mine)
                self.groups[group.group_name] = mine
            return group

        replace(split_group, *self.modules)

    # ---- Start

    def replace_start(self):
        c10d, init = self.c10d, self.c10d.init_process_group

        def rendezvous(*args, **kwargs):
            yield self.store(), self.rank, self.size

        @functools.wraps(init)
        def init_process_group(*args, **kwargs):
            told = bound(init, args, kwargs)
            if told["store"] is not None:
                kwargs.update(rank=self.rank, world_size=self.size)
                args = ()
                kwargs.update({name: value for name, value in told.items() if name not in kwargs and name != "kwargs"})
            return init(*args, **kwargs)

        def monitored_barrier(*args, **kwargs):
            pass

        c10d.rendezvous = rendezvous
        replace(init_process_group, *self.modules)
        replace(monitored_barrier, *self.modules)
        processes, package = sys.modules["torch.multiprocessing.spawn"], self.torch.multiprocessing
        start = processes.start_processes

        @functools.wraps(start)
        def start_processes(fn, args=(), nprocs=1, *more, **kwargs):
            """Of the processes of this host, the one that plays the rank."""
            if called_by("torch.distributed.elastic"):
                return start(fn, args, nprocs, *more, **kwargs)
            return start(One(fn, self.rank % nprocs), args, 1, *more, **kwargs)

        replace(start_processes, processes, package)

    # ---- Objects

    def replace_objects(self):
        """PyTorch's own functions run, for what they allocate; and then absent ranks' objects are this one's, or what the rank that sent
        them had when it was played."""
        c10d, out_of_memory = self.c10d, getattr(self.torch, "OutOfMemoryError", self.torch.cuda.OutOfMemoryError)

        def attempt(function, args, kwargs):
            try:
                function(*args, **kwargs)
            except out_of_memory:
                raise
            except Exception:  # what stands for a long message cannot be unpickled
                pass

        def wrapped(function):
            @functools.wraps(getattr(c10d, function.__name__))
            def call(*args, **kwargs):
                real = call.__wrapped__
                return function(lambda: attempt(real, args, kwargs), bound(real, args, kwargs))
            replace(call, *self.modules)

        def is_of_group(told):
            return told["group"] is not c10d.GroupMember.NON_GROUP_MEMBER

        def source(told):
            group, of_group = told["group"], told.get("group_src")
            if of_group is not None:
                return c10d.get_global_rank(group or c10d._get_default_group(), of_group)
            return told["src"] or 0

        def told_by(told, objects):
            """What the source tells the ranks of its group: it is kept for them; else what was kept, or None."""
            group = c10d.get_process_group_ranks(told["group"] or c10d._get_default_group())
            key = (source(told), *group)
            count = self.objects[key] = self.objects.get(key, 0) + 1
            path = os.path.join(setting("OBJECTS"), f"objects-{hashlib.sha256(repr((key, count)).encode()).hexdigest()[:16]}")
            if objects is not None:
                with open(f"{path}.new", "wb") as file:
                    pickle.dump(objects, file)
                os.replace(f"{path}.new", path)
            elif os.path.exists(path):
                with open(path, "rb") as file:
                    return pickle.load(file)
            else:
                say(f"objects of rank {key[0]} are not known, which was not played before: --rank {key[0]},{self.rank} would")
            return objects

        @wrapped
        def all_gather_object(real, told):
            if is_of_group(told):
                real()
                told["object_list"][:] = [told["obj"]] * len(told["object_list"])

        @wrapped
        def gather_object(real, told):
            if is_of_group(told):
                real()
                if told["object_gather_list"] is not None:
                    told["object_gather_list"][:] = [told["obj"]] * len(told["object_gather_list"])

        @wrapped
        def broadcast_object_list(real, told):
            if is_of_group(told) and source(told) == self.rank:
                told_by(told, list(told["object_list"]))
                real()
            elif is_of_group(told):
                told["object_list"][:] = told_by(told, None) or told["object_list"]

        @wrapped
        def scatter_object_list(real, told):
            given = told["scatter_object_input_list"]
            if is_of_group(told) and source(told) == self.rank:
                told_by(told, list(given))
                real()
                told["scatter_object_output_list"][0] = given[c10d.get_rank(told["group"])]
            elif is_of_group(told):
                given = told_by(told, None)
                told["scatter_object_output_list"][0] = given[c10d.get_rank(told["group"])] if given else None

    # ---- Beside NCCL

    def replace_gloo(self):
        """Its tensors are on the CPU: PyTorch's process group that does nothing, by gloo's name."""
        real = getattr(self.c10d, "ProcessGroupGloo", None)
        if real is None:
            return
        from torch._C._distributed_c10d import FakeProcessGroup

        FakeProcessGroup._set_sequence_number_for_group = lambda group: None  # before 2.15 it refuses

        class Names(type):
            def __instancecheck__(cls, one):
                return isinstance(one, FakeProcessGroup)

        class ProcessGroupGloo(metaclass=Names):
            def __new__(cls, store, rank, size, *args, **kwargs):
                make = getattr(FakeProcessGroup, "_create_internal", FakeProcessGroup)
                return make(rank, size)

        for name in dir(real):
            if not name.startswith("__"):
                setattr(ProcessGroupGloo, name, getattr(real, name))
        replace(ProcessGroupGloo, *self.modules)

    def replace_symmetric_memory(self):
        """Work areas of tensor parallelism that overlaps with its communication: the driver's memory, outside PyTorch's allocator."""
        try:
            import torch.distributed._symmetric_memory as symmetric
        except ImportError:
            return
        areas, world = {}, self

        def enable_symm_mem_for_group(name):
            getattr(symmetric, "_group_name_to_store", {}).setdefault(name, None)

        def get_symm_mem_workspace(group_name, min_size):
            enable_symm_mem_for_group(group_name)
            known = areas.setdefault(group_name, [])
            if not known or known[-1].size < min_size:  # older ones stay: someone may still use them
                known.append(WorkArea(world, group_name, (min_size + 255) & ~255))
            return known[-1]

        replace(enable_symm_mem_for_group, symmetric)
        replace(get_symm_mem_workspace, symmetric)


class WorkArea:
    """As PyTorch's _SymmetricMemory: every rank's is this one's."""
    PAGE = 2 << 20

    def __init__(self, world, group_name, size):
        torch = world.torch
        group = world.c10d._resolve_process_group(group_name)
        self.rank, self.world_size, self.size = group.rank(), group.size(), size
        device = torch.device("cuda", torch.cuda.current_device())
        torch.cuda.current_stream()
        address, cuda = ctypes.c_uint64(), ctypes.CDLL("libcuda.so.1")
        whole = (size + self.PAGE - 1) // self.PAGE * self.PAGE
        if cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(whole)):
            raise torch.cuda.OutOfMemoryError(f"CUDA out of memory: {whole} bytes of symmetric memory")
        storage = torch._C._construct_storage_from_data_pointer(address.value, device, size)
        self.whole = torch.empty(0, dtype=torch.uint8, device=device).set_(storage)

    def get_buffer(self, rank, sizes, dtype, storage_offset=0):
        count = 1
        for size in sizes:
            count *= size
        return self.whole.view(dtype)[storage_offset:storage_offset + count].view(sizes)

    def barrier(self, *args, **kwargs):
        pass

    put_signal = wait_signal = barrier


class One:
    """Of a function that is started once for each rank of a host, the call for one of them."""

    def __init__(self, function, index):
        self.function, self.index = function, index

    def __call__(self, _, *args):
        return self.function(self.index, *args)


def numbers(ranks):
    return (ctypes.c_int * len(ranks))(*ranks)


def called_by(package):
    return sys._getframe(2).f_globals.get("__name__", "").startswith(package)


def make_stores(world):
    """The store, also in place of those that a program makes; those of a launcher are real."""
    import datetime
    dist = world.dist
    common, kept = {}, []  # kept: C++ has the store without its Python object

    class LoneStore(dist.Store):
        """What this rank set it gets back. What another one would have set: as this one did, where keys differ by the rank's number;
        NCCL's ids are made up from their keys; and nobody is waited for."""

        def __init__(self, *args, **kwargs):
            super().__init__()
            self.known = common
            kept.append(self)

        def set(self, key, value):
            self.known[key] = value if isinstance(value, bytes) else bytes(value) if isinstance(value, bytearray) else str(value).encode()
            if len(self.known[key]) == ID_BYTES:
                world.tell_communicator(key, self.known[key])

        def get(self, key):
            if key in self.known:
                return self.known[key]
            own = self.known.get(re.sub(r"\d+", str(world.rank), key), b"")
            if own and len(own) != ID_BYTES:
                return own
            made = b"".join(hashlib.sha256(f"{key} {i}".encode()).digest() for i in range(ID_BYTES // 32))
            world.tell_communicator(key, made)
            return made

        def add(self, key, value):
            """Every rank adds as much."""
            count = int(self.known.get(key, b"0")) + value * world.size
            self.known[key] = str(count).encode()
            return count

        def compare_set(self, key, expected, desired):
            return self.known.setdefault(key, desired if isinstance(desired, bytes) else str(desired).encode())

        def append(self, key, value):
            self.known[key] = self.known.get(key, b"") + (value if isinstance(value, bytes) else str(value).encode())

        def check(self, keys):
            return all(key in self.known for key in keys)

        def wait(self, keys, timeout=None):
            pass

        def delete_key(self, key):
            return self.known.pop(key, None) is not None

        def num_keys(self):
            return len(self.known)

        def multi_get(self, keys):
            return [self.get(key) for key in keys]

        def multi_set(self, keys, values):
            for key, value in zip(keys, values):
                self.set(key, value)

        def has_extended_api(self):
            return True

        def set_timeout(self, timeout):
            pass

        def clone(self):
            return self

        timeout = property(lambda self: datetime.timedelta(minutes=30))

    def in_place_of(real):
        class Store(LoneStore):
            def __new__(cls, *args, **kwargs):
                return real(*args, **kwargs) if called_by("torch.distributed.elastic") else super().__new__(cls)

            host, port, path, world_size = "127.0.0.1", int(os.environ.get("MASTER_PORT") or 0), "", world.size
        Store.__name__ = Store.__qualname__ = real.__name__
        replace(Store, *world.modules)

    for name in ("TCPStore", "FileStore", "HashStore"):
        if hasattr(dist, name):
            in_place_of(getattr(dist, name))
    return LoneStore


def install(torch):
    if setting("WORLD") and torch.distributed.is_available() and torch.version.cuda:
        install.world = World(torch)
        install.world.install()
