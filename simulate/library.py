#!/usr/bin/env python3
"""Makes the source of one library, and its version script, from prototypes/NAME.def.

    library.py list                                  a line "FILE NAME" for each library (FILE: libcublas.so.13)
    library.py build NAME FILE BY_HAND.c OUTPUT COMPILER...    what BY_HAND.c defines for STANDIN_libNAME is not generated

A function returns 0 and answers through each pointer that is not const: a block of its own where a handle is asked for, which ends
with the function that destroys it, else zeros.
That is all that programs look at, but for the few in libraries.c and in the sources named after a library.
Where zero is not what NVIDIA's library would answer and nothing better is known, the trace says so: NOT_KNOWN."""
import collections
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
RETURNED = {"i": "long", "v": "void", "t": "const char *"}
TYPES = {"i": "long", "f": "float", "d": "double", "c": "float _Complex", "z": "double _Complex", "p": "void *", "h": "void **"}

# Functions of a library whose answer of 0 is too low: what the simulated memory lacks then.
NOT_KNOWN = {
    "cudnn": {r"cudnn(Get|Find)Convolution\w+(WorkspaceSize|Algorithm\w*)": "workspaces of cuDNN's convolutions",
              r"cudnnGet\w*Normalization\w+(WorkspaceSize|ReserveSpaceSize)": "workspaces of cuDNN's batch norms",
              r"cudnnGetCTCLossWorkspaceSize\w*": "workspaces of cuDNN's CTC loss"},
    "cusolver": {r"\w+_bufferSize\w*|\w+Buffer[sS]ize": "cuSOLVER's work areas"},
    "cusolverMg": {r"\w+_bufferSize": "cuSOLVER's work areas"},
    "cusparse": {r"\w+_(bufferSize\w*|workEstimation|estimateMemory)": "cuSPARSE's work areas"},
    "cusparseLt": {r"cusparseLtMatmulGetWorkspace": "cuSPARSELt's work areas"},
    "nvshmem_host": {r"nvshmemx?_\w*init\w*|nvshmemid_hostlib_init_attr": "NVSHMEM's heap"},
}


def read(name):
    """({release: (file, version node, version)}, [(letters, function, version node, releases)])"""
    nodes, functions, letters, version = {}, [], "", None
    for line in (HERE / "prototypes" / f"{name}.def").read_text().splitlines():
        words = line.split()
        if words[0] == "library":
            node, *number = [*words[3:], "", ""][:2]
            nodes[words[1]] = words[2], node.strip("-"), number[0]
            continue
        if not line.startswith(" "):
            letters, words = words[0], words[1:]
            version = words.pop(0)[1:] if words[0].startswith("@") else None
        for word in words:
            function, _, only = word.partition(":")
            functions.append((letters, function, version, only.split("+") if only else list(nodes)))
    return nodes, functions


def of_file(name, file):
    """{function: (letters, version)} of the releases whose library has this name."""
    nodes, functions = read(name)
    found = {}
    for letters, function, version, releases in functions:
        for release in releases:
            if nodes[release][0] == file:
                found[function] = letters, nodes[release][1] if version is None else version
    return found


def by_hand(name, path):
    """What a source defines for this library: between #ifdef STANDIN_libNAME and #endif, or all that is not static."""
    text = path.read_text()
    part = re.search(rf"^#ifdef STANDIN_lib{name}$(.*?)^#endif", text, re.S | re.M)
    if "#ifdef STANDIN_" in text and not part:
        return set()
    definition = re.compile(r"^(?!static|struct|enum|#)\w[\w \*]*?\b(\w+)\([^;]*?\)(?: /\*.*?\*/)?\s*\{", re.S | re.M)
    same = re.compile(r"^SAME\((\w+), ", re.M)  # another name of a function
    return {name for kind in (definition, same) for name in kind.findall(part[1] if part else text)}


def version_of(name, file):
    """Of the newest release whose library has this name: [13, 4, 1], or where a library counts by one number, [26]."""
    return [int(part) for node in read(name)[0].values() if node[0] == file for part in node[2].split(".") if part][-3:]


def told_version(function, letters, parts):
    """What a function answers that asks for the version; None: another function."""
    if re.fullmatch(r"\w+GetVersion(_v2)?", function) and parts:
        scale = 10000 if function.startswith("cublas") else 1000
        number = parts[0] if len(parts) == 1 else parts[0] * scale + parts[1] * 100 + parts[2]
        last = letters.count(",")
        return f"return {number};" if letters == "i()" else f"*(int *)a{last} = {number}; return 0;" if letters.endswith("o4)") else None
    if len(parts) == 3 and function.endswith("GetProperty") and letters == "i(i,o4)":
        return f"*(int *)a1 = a0 >= 0 && a0 < 3 ? ((const int[]){{{', '.join(map(str, parts))}}})[a0] : 0; return 0;"
    if len(parts) == 3 and function in ("nvrtcVersion", "nvJitLinkVersion"):
        return f"*(int *)a0 = {parts[0]}; *(int *)a1 = {parts[1]}; return 0;"
    return None


def source(functions, name, own, parts):
    lines = ["#include <stdlib.h>", "#include <string.h>", f'#include "{HERE}/lacks.h"',
             '#define STUB __attribute__((visibility("default")))',
             "static inline void give(void **answer) { if (answer) *answer = calloc(1, 64); }",
             "static inline void take(void **handle) { if (handle) free(*handle); }",
             "static inline void clear(void *answer, size_t bytes) { if (answer) memset(answer, 0, bytes); }"]
    lacks = {what: f"lacks_{i}" for i, what in enumerate(NOT_KNOWN.get(name, {}).values())}
    lines += [f'static void {told}(void) {{ STANDIN_LACKS_ONCE("{what}"); }}' for what, told in lacks.items()]
    creates = any("Create" in function for function in functions)  # cuSPARSELt fills what its caller has
    for function, (letters, _) in sorted(functions.items()):
        if function in own:
            continue
        if letters[0] == "x":
            lines.append(f"STUB char {function}[{letters[2:-1]}];")
            continue
        returned, parameters = letters[0], [letter for letter in letters[2:-1].split(",") if letter]
        typed = ", ".join(f"{TYPES['p' if letter[0] == 'o' else letter]} a{i}" for i, letter in enumerate(parameters)) or "void"
        answers = [(i, letter) for i, letter in enumerate(parameters) if letter[0] in "ho"]
        acts = [f"give(a{i});" if letter == "h" else f"clear(a{i}, {letter[1:]});" for i, letter in answers]
        if "Destroy" in function and parameters in (["p"], ["h"]) and creates:
            acts = ["free(a0);" if parameters == ["p"] else "take(a0);"]
        acts += [f"{lacks[what]}();" for pattern, what in NOT_KNOWN.get(name, {}).items() if re.fullmatch(pattern, function)]
        told = told_version(function, letters, parts)
        acts = [] if told else acts
        end = told or {"i": "return 0;", "v": "", "t": f'return "simulated {name}";'}[returned]
        lines.append(f"STUB {RETURNED[returned]} {function}({typed});")
        lines.append(f"STUB {RETURNED[returned]} {function}({typed}) {{ {' '.join([*acts, end])} }}")
    return "\n".join(lines) + "\n"


def versions(functions, file):
    nodes = collections.defaultdict(list)
    for function, (_, version) in functions.items():
        nodes[version or file.replace("-", "_")].append(function)
    return "".join(f"{node} {{ global: {'; '.join(sorted(names))}; }};\n" for node, names in sorted(nodes.items()))


def build(name, file, path, output, compiler):
    functions = of_file(name, file)
    with tempfile.TemporaryDirectory() as folder:
        generated, script = pathlib.Path(folder) / "library.c", pathlib.Path(folder) / "library.map"
        generated.write_text(source(functions, name, by_hand(name, path), version_of(name, file)))
        script.write_text(versions(functions, file))
        subprocess.run([*compiler, "-shared", "-fPIC", "-O1", "-w", "-fvisibility=hidden", f"-DSTANDIN_lib{name}", f"-Wl,-soname,{file}",
                        f"-Wl,--version-script={script}", "-o", output, generated, path], check=True)


def main():
    what, *arguments = sys.argv[1:]
    if what == "list":
        for path in sorted((HERE / "prototypes").glob("*.def")):
            for file in sorted({file for file, *_ in read(path.stem)[0].values()}):
                print(file, path.stem)
    else:
        name, file, by_hand_path, output, *compiler = arguments
        build(name, file, pathlib.Path(by_hand_path), output, compiler)


if __name__ == "__main__":
    main()
