"""Several releases of ggml in one process: each call goes where the caller's calls go without us."""
import subprocess

import pytest

import support  # noqa: F401  (first: helpers are found by it)
from helpers import ENVIRONMENT, LIBRARY

NAME = "ggml_backend_alloc_ctx_tensors_from_buft"
GGML = "void *%s(void *context, void *type) { return (char *)RETURNED; }" % NAME
USER = "void *%s(void *, void *); void *USE(void) { return %s(0, 0); }" % (NAME, NAME)
# `shared` needs a ggml beside it, `inside` has one of its own.
PROGRAM = """
import ctypes, sys
loader, results = ctypes.CDLL(None), []
loader.dlsym.restype, loader.dlerror.restype = ctypes.c_void_p, ctypes.c_char_p


def with_error(use, symbol):
    # What it returns, and what dlerror says then of the search before it.
    loader.dlerror()
    if symbol:
        loader.dlsym(None, symbol)
    return use(), loader.dlerror()


for path in sys.argv[2:]:
    name = path.rpartition("/lib")[2].partition(".")[0]
    library = ctypes.CDLL(path, ctypes.RTLD_GLOBAL if sys.argv[1] == "global" else ctypes.RTLD_LOCAL)
    if name.startswith("use"):
        use = getattr(library, name)
        use.restype = ctypes.c_void_p
        results += [with_error(use, b"no_such_symbol"), with_error(use, None)]
print(results)
"""


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ggml")

    def build(name, *sources_and_options):
        source = folder / f"{name}.c"
        source.write_text("\n".join(text for text in sources_and_options if "{" in text))
        options = [text for text in sources_and_options if "{" not in text]
        subprocess.run(["cc", "-shared", "-fPIC", "-O0", "-o", folder / f"lib{name}.so", source, f"-Wl,-soname,lib{name}.so", f"-L{folder}",
                        f"-Wl,-rpath,{folder}", *options], check=True)
        return str(folder / f"lib{name}.so")

    return {"first": build("first", GGML, "-DRETURNED=1"), "second": build("second", GGML, "-DRETURNED=2"),
            "use_first": build("use_first", USER, "-DUSE=use_first", "-lfirst"),
            "use_second": build("use_second", USER, "-DUSE=use_second", "-lsecond"),
            "use_inside": build("use_inside", GGML, USER, "-DRETURNED=3", "-DUSE=use_inside")}


@pytest.mark.parametrize("scope", ["local", "global"])
@pytest.mark.parametrize("order", [["use_first"], ["use_second", "use_first"], ["use_first", "use_inside", "use_second"],
                                   ["use_inside", "use_second"], ["second", "use_first", "use_inside"]])
def test_each_calls_its_own(libraries, order, scope):
    def run(**environment):
        return subprocess.run(["python3", "-c", PROGRAM, scope, *(libraries[name] for name in order)], check=True, text=True,
                              capture_output=True, env={**ENVIRONMENT, **environment}).stdout

    assert run(LD_PRELOAD=str(LIBRARY)) == run()
