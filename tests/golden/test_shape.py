"""The tree's own rules: files and functions short enough to read, one meaning for each structure's name, names of frameworks in tables."""
import collections
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).parents[2]
PRODUCT = ("analyzer", "preload", "format", "include", "python")
TRACKED = [ROOT / name for name in
           subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True,
                          check=True).stdout.splitlines()
           if (ROOT / name).is_file()]
SOURCES = [path for path in TRACKED if path.relative_to(ROOT).parts[0] in PRODUCT]
C_FILES = [path for path in SOURCES if path.suffix in (".c", ".h")]
# Longer ones that are still to be split; none may be added.
LONG = set()
MOST_LINES, MOST_PAGE_LINES, MOST_FUNCTION_LINES = 500, 400, 64

# What frameworks call their modules, functions, arguments, settings and libraries, in a string. In the analyzer it stands in tables
# (*.def), not in C. OTHERS still have some; none may be added.
FRAMEWORKS = re.compile(r"\b(?:torch|jax|jnp|tensorflow|tf|paddle|cupy|keras|numpy|np|transformers)\.\w"
                        r"|\b(?:torch|at|c10|tensorflow|xla|phi|aten)::"
                        r"|\b(?:PYTORCH|XLA|TF|JAX|FLAGS|RMM)_[A-Z]|\blib(?:torch|c10|tensorflow|jax|paddle|phi|onnxruntime|rmm|ggml)"
                        r"|\b(?:no_grad|inference_mode|zero_grad|clear_grad|empty_cache|backward|detach|clone|item|cpu|cuda|state_dict)\("
                        r"|\b(?:map_location|set_to_none|set_to_zero|retain_graph|inplace|foreach|fused)=")
OTHERS = {"analyzer/findings/leaks/growth.c"}
STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')

COMMENT = re.compile(r"/\*.*?\*/", re.S)
STRUCT = re.compile(r"^(?:struct|union|enum) (vt_\w+) \{", re.M)
FUNCTION = re.compile(r"^(?!typedef|struct|union|enum|#)(\w[^\n;]*?\b(\w+)\([^;{}]*\))\n\{\n(.*?)^\}", re.M | re.S)


def name_of(path):
    return str(path.relative_to(ROOT))


def test_no_long_file():
    limit = {path: MOST_PAGE_LINES if "html/page" in name_of(path) else MOST_LINES for path in SOURCES if path.suffix != ".def"}
    long = {name_of(path): count for path in limit if (count := len(path.read_text().splitlines())) > limit[path]}
    assert long.keys() == LONG, long


def test_no_long_function():
    long = {f"{name_of(path)}: {name}": lines for path in C_FILES for _, name, body in FUNCTION.findall(path.read_text())
            if (lines := body.count("\n") + 3) > MOST_FUNCTION_LINES}
    assert not long


def test_a_structure_has_one_definition():
    places = collections.defaultdict(list)
    for path in C_FILES:
        for name in STRUCT.findall(COMMENT.sub("", path.read_text())):
            places[name].append(name_of(path))
    assert not {name: where for name, where in places.items() if len(where) > 1}


def test_names_of_frameworks_stand_in_tables():
    found = {name_of(path): names for path in C_FILES if path.relative_to(ROOT).parts[0] == "analyzer" and
             (names := [text for text in STRING.findall(COMMENT.sub("", path.read_text())) if FRAMEWORKS.search(text)])}
    assert found.keys() == OTHERS, found
