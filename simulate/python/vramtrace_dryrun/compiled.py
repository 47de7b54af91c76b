"""At the end of a program that used torch.compile, a mark for the answer: how many graphs were compiled in this run, and how many were
taken from the cache? The two may peak differently. With --world also a note, for the ranks that are played after this one."""
import atexit
import ctypes
import os


def install(utils):
    """torch._dynamo.utils: its counters, which Inductor keeps, too."""
    def tell():
        inductor, graphs = utils.counters["inductor"], utils.counters["stats"]["unique_graphs"]
        found = max(inductor["fxgraph_cache_hit"], utils.counters["aot_autograd"]["autograd_cache_hit"])
        made = inductor["fxgraph_cache_miss"] + inductor["fxgraph_cache_bypass"]
        made = made or (0 if found else graphs)  # without a cache
        mark = getattr(ctypes.CDLL(None), "vramtrace_mark", None)
        if mark and made + found:
            mark(f"dry run: torch.compile: graphs compiled in this run: {made}, taken from the cache: {found}; with the cache "
                 f"{'filled' if made else 'empty'} the peak may differ".encode())
        rooms = os.environ.get("VRAMTRACE_STANDIN_ROOMS")
        if rooms and made:
            with open(os.path.join(rooms, f"rank-{os.environ['RANK']}"), "a") as file:
                file.write("compiled\n")

    atexit.register(tell)
