#!/usr/bin/env python3
"""Writes prototypes/*.def: the functions of NVIDIA's libraries, with the kinds of their parameters, from the headers and the libraries
of their packages on PyPI. Facts only, no text of a header.

    extract.py RELEASE=SITE-PACKAGES...       12=… 13=…: folders with nvidia/ in them, each of one release of CUDA

Run it when a library gets functions that programs call (`simulate/README.md`). It needs gcc, objdump and nm."""
import collections
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
HEADERS = {
    "libcublas": ["cublas_v2.h", "cublas_api.h"], "libcublasLt": ["cublasLt.h"], "libcudnn": ["cudnn.h"],
    "libcufft": ["cufft.h", "cufftXt.h"],
    "libcusolver": ["cusolverDn.h", "cusolverSp.h", "cusolverRf.h"], "libcusolverMg": ["cusolverMg.h"], "libcusparse": ["cusparse.h"],
    "libcusparseLt": ["cusparseLt.h"], "libcupti": ["cupti.h"], "libcufile": ["cufile.h"], "libcurand": ["curand.h"], "libnccl": ["nccl.h"],
    "libnvrtc": ["nvrtc.h"], "libnvJitLink": ["nvJitLink.h"], "libnvshmem_host": [], "libnvToolsExt": [],
}
ONLY_USED = {"libnvshmem_host"}  # thousands of functions, of which frameworks import few
PROTOTYPE = re.compile(r"(?<=[;{}])\s*(?:extern )?((?:\w+[\s*]+)+)(\w+)\s*\(([^()]*)\)\s*;")
PARAMETER = re.compile(r"^(.*?)(\w+)?\s*((?:\[\w*\]\s*)*)$")
TYPES = {"const", "unsigned", "signed", "int", "long", "short", "float", "double", "void", "char", "struct", "enum"}


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"extract.py: {' '.join(map(str, command))}\n{done.stderr[-3000:]}")
    return done.stdout


def split(parameter):
    """Type, whether it is an array."""
    kind, name, array = PARAMETER.match(parameter.strip()).groups()
    kind = kind.strip()
    if name and (not kind or name in TYPES or (kind in ("const", "unsigned", "long", "struct", "enum") and not kind.endswith("*"))):
        kind = f"{kind} {name}".strip()
    return kind, bool(array)


def prototypes(headers, folders):
    """{name: (type returned, [(type, is array)])}"""
    text = "".join(f"#include <{header}>\n" for header in headers)
    command = ["gcc", "-E", "-P", "-w", *(f"-I{folder}" for folder in folders), "-"]
    text = subprocess.run(command, input=text, capture_output=True, text=True).stdout  # without a header that is not there
    text = re.sub(r"__attribute__\s*\(\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\)", "", text)
    text = re.sub(r"\b(alignas|_Static_assert|_Alignas)\s*\([^()]*\)", "", re.sub(r"\s+", " ", text))
    found = {}
    for returned, name, parameters in PROTOTYPE.findall(text):
        if "typedef" in returned or "inline" in returned or "static" in returned:
            continue
        parts = [] if parameters.strip() in ("", "void") else [split(part) for part in parameters.split(",")]
        found.setdefault(name, (returned.strip(), parts))
    return found


def measure(headers, folders, questions):
    """{type: (class, size), of what it points to if `pointed`}. What has no size is left out."""
    left, answers = list(questions), {}
    include = "#include <stdio.h>\n#include <stdbool.h>\n#include <stdalign.h>\n" + "".join(f"#include <{header}>\n" for header in headers)
    while left:
        lines = []
        for i, (kind, pointed) in enumerate(left):
            value = f"(*({kind})x)" if pointed else f"(*({kind} *)x)"
            lines.append(f'printf("{i} %d %zu\\n", __builtin_classify_type({value}), sizeof {value});')
        begin = "int main(void) { static char block[1 << 16]; void *x = block; (void)x;"
        source = "\n".join([include, begin, "#line 1", *lines, "return 0; }\n"])
        program = pathlib.Path(folders[-1]) / "types"
        made = subprocess.run(["gcc", "-w", *(f"-I{folder}" for folder in folders), "-x", "c", "-", "-o", program], input=source,
                              capture_output=True, text=True)
        if made.returncode == 0:
            for line in run(program).splitlines():
                number, kind, size = map(int, line.split())
                answers[left[number]] = kind, size
            return answers
        bad = {int(number) - 1 for number in re.findall(r"<stdin>:(\d+):\d+: error", made.stderr)}
        if not bad:
            sys.exit(made.stderr[-2000:])
        left = [question for i, question in enumerate(left) if i not in bad]
    return answers


# Letters by the compiler's class of a type; of real and complex numbers, by their size, too.
INTEGERS = {1, 2, 3, 4}
LETTERS = {(8, 4): "f", (8, 8): "d", (9, 8): "c", (9, 16): "z"}


def is_answer(kind, array):
    return kind.endswith("*") and "const" not in kind and not array and not re.fullmatch(r"(void|FILE)\s*\*", kind)


def letters(returned, parts, sizes):
    """As in prototypes/*.def. None: it cannot be called from what is known."""
    out = []
    for kind, array in parts:
        if array or kind.endswith("*"):
            told = sizes.get((kind, True)) if is_answer(kind, array) else None
            out.append("p" if not told else "h" if told[0] == 5 else f"o{told[1]}")
            continue
        told = sizes.get((kind, False), (0, 0))
        letter = "i" if told[0] in INTEGERS else "p" if told[0] == 5 else LETTERS.get(told)
        if not letter:
            return None
        out.append(letter)
    if returned == "void":
        head = "v"
    elif re.search(r"char\s*\*$", returned):
        head = "t"
    else:
        told = sizes.get((returned, False))
        head = "i" if told and told[0] in INTEGERS | {5} else None
    return head and head + "(" + ",".join(out) + ")"


def imported(packages):
    """Names that the libraries of frameworks import."""
    return {line.split()[-1].partition("@")[0] for path in packages.glob("torch/lib/*.so*")
            for line in run("nm", "-D", "--undefined-only", path).splitlines()}


def libraries(packages, used):
    """{stem: (soname, {name: (version, bytes of data, 0 = a function)})}"""
    found = {}
    for path in sorted(packages.rglob("lib/lib*.so.*")):
        stem = path.name.split(".")[0]
        if stem not in HEADERS or path.is_symlink():
            continue
        soname = re.search(r"SONAME\s+(\S+)", run("objdump", "-p", path))[1]
        symbols = {}
        for line in run("nm", "-D", "-S", "--defined-only", path).splitlines():
            words = line.split()
            if len(words) < 3:
                continue
            kind, (name, _, version) = words[-2], words[-1].partition("@")
            if name.startswith("_"):  # of C++'s own library
                continue
            if name in used or (kind in "TWi" and stem not in ONLY_USED and name.lower().startswith(("nvtx", stem[3:].lower()))):
                symbols[name] = version.lstrip("@"), int(words[1], 16) if kind not in "TWi" and len(words) == 4 else 0
        found[stem] = soname, symbols
    return found


def c_headers(folder):
    """Some headers ask for C++'s names of C's."""
    for name in ("stddef", "stdint"):
        (folder / f"c{name}").write_text(f"#include <{name}.h>\n")
    return folder


def include_folders(packages, scratch):
    return [*sorted({path.parent for path in packages.rglob("include/*.h")}), c_headers(scratch)]


def kinds(stem, folders):
    """{name: letters, or None: not known} of the functions that a library's headers declare."""
    headers = [header for header in HEADERS[stem] if any((place / header).exists() for place in folders)]
    told = prototypes(headers, folders) if headers else {}
    questions = {(kind, False) for name, (returned, parts) in told.items() for kind, array in [*parts, (returned, False)]
                 if not kind.endswith("*") and kind != "void"}
    questions |= {(kind, True) for _, parts in told.values() for kind, array in parts if is_answer(kind, array)}
    sizes = measure(headers, folders, sorted(questions))
    return {name: letters(returned, parts, sizes) for name, (returned, parts) in told.items()}


def version(stem, folders):
    """As 13.4.1, or of a library that counts by one number, 26; None: its headers do not say."""
    name = re.sub("LT$|MG$", "", stem[3:].upper()) if stem != "libcusparseLt" else "CUSPARSELT"
    told = [f"{name}_VER_MAJOR.{name}_VER_MINOR.{name}_VER_PATCH", f"{name}_MAJOR.{name}_MINOR.{name}_PATCH",
            f"{name}_MAJOR.{name}_MINOR.{name}_PATCHLEVEL", f"{name}_API_VERSION"]
    told += ["CUDART_VERSION"] if stem in ("libnvrtc", "libnvJitLink") else []
    headers = [*HEADERS[stem], "cuda_runtime_api.h"]
    text = "".join(f"#include <{header}>\n" for header in headers if any((place / header).exists() for place in folders))
    text += "".join(f'"said" {parts.replace(".", " ")}\n' for parts in told)
    command = ["gcc", "-E", "-P", "-w", *(f"-I{folder}" for folder in folders), "-"]
    text = subprocess.run(command, input=text, capture_output=True, text=True).stdout
    for said in re.findall(r'^"said" ([\d ]+)$', text, re.M):
        number = said.split()
        return ".".join(number) if name not in ("NVRTC", "NVJITLINK") else f"{int(number[0]) // 1000}.{int(number[0]) % 1000 // 10}.0"
    return None


def main():
    tables = collections.defaultdict(lambda: collections.defaultdict(dict))  # library: name: release: letters
    nodes, scratch = collections.defaultdict(dict), tempfile.TemporaryDirectory()
    for argument in sys.argv[1:]:
        release, _, folder = argument.partition("=")
        used, packages = imported(pathlib.Path(folder)), pathlib.Path(folder) / "nvidia"
        folders = include_folders(packages, pathlib.Path(scratch.name))
        for stem, (soname, symbols) in libraries(packages, used).items():
            told = kinds(stem, folders)
            versions = collections.Counter(node for node, _ in symbols.values())
            node = versions.most_common(1)[0][0] if versions else ""
            nodes[stem][release] = soname, node, version(stem, folders)
            for name, (own, size) in symbols.items():
                known = f"x({size})" if size else told.get(name)
                tables[stem][name][release] = (known or "i()") + (f" @{own}" if own != node else "")
    for stem, names in sorted(tables.items()):
        lines = [f"library {release} {soname} {node or '-'} {number or ''}".rstrip(" -")
                 for release, (soname, node, number) in sorted(nodes[stem].items())]
        groups = collections.defaultdict(list)
        releases = sorted(nodes[stem])
        for name, by in names.items():
            for known in sorted(set(by.values())):
                only = [release for release in releases if by.get(release) == known]
                groups[known].append(name if only == releases else f"{name}:{'+'.join(only)}")
        for known, members in sorted(groups.items()):
            line = known
            for member in sorted(members):
                if len(line) + len(member) > 138:
                    lines.append(line)
                    line = " "
                line += f" {member}"
            lines.append(line)
        (HERE / "prototypes" / f"{stem[3:]}.def").write_text("\n".join(lines) + "\n")
        unknown = sum(set(by.values()) == {"i()"} for by in names.values())
        print(f"{stem}: {len(names)} functions, {unknown} without a prototype, {len(lines)} lines")


if __name__ == "__main__":
    main()
