#!/usr/bin/env python3
"""The same programs on several versions of PyTorch: are the categories right on each, and the same for the same objects?

    versions.py [--python VERSION=INTERPRETER]... [--every N] [--mode MODE] [--keep FOLDER] [VERSION...] > docs/results/versions.md

Runs the training and inference programs of programs.md that are not held out, and sharded/kinds.py on 8 ranks. An interpreter that is
not given comes from setup_torch_of of tests/setup.sh: 2 GB for each version. --every: each Nth program only. --keep: what FOLDER has is
not run again, and the table has all of it. Needs VRAMTRACE_BUILD and VRAMTRACE_RUN.
"""
import argparse
import collections
import contextlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import catalogue  # noqa: E402
import helpers  # noqa: E402
import judge  # noqa: E402
from table import MODES, RIGHT, SHORT, examine, share_of  # noqa: E402

VERSIONS = ("2.4.1", "2.6.0", "2.8.0", "2.11.0", "2.15.0")
KINDS = ("ddp", "fsdp1", "fsdp2", "hsdp", "tp", "tpfsdp", "pp")
RANKS, BATCH = 8, 40
IMPORT = """import sys; sys.path[:0] = [{0!r}, {0!r} + "/../torch"]
import importlib
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except Exception as error:
        print(name, f"{{type(error).__name__}}: {{error}}".splitlines()[0], sep="\\t")
"""


# ---- Running ----


def kinds_of(version):
    return KINDS if tuple(map(int, version.split(".")[:2])) >= (2, 6) else ("ddp", "fsdp1", "pp")


def interpreter(version, given):
    if version not in given:
        command = (f'. {HERE.parent}/setup.sh; if [ "$1" = "$setup_torch_version" ]; then setup_trainers; else setup_torch_of "$1"; fi && '
                   'echo "$VRAMTRACE_PYTHON"')
        given[version] = subprocess.run(["bash", "-c", command, "setup", version], check=True, text=True,
                                        stdout=subprocess.PIPE).stdout.strip()
    return given[version]


def use(python):
    """From here on programs run with this interpreter and its PyTorch."""
    if python != helpers.PYTHON:
        helpers.PYTHON = helpers.ENVIRONMENT["VRAMTRACE_PYTHON"] = python


def refused(names):
    """{program: why} of those whose file cannot be imported."""
    files = {name: f"{program.topic}.{program.file}" for name in names for program in [catalogue.read()[name]]}
    code = IMPORT.format(str(HERE))
    lines = helpers.run([helpers.PYTHON, "-c", code, *dict.fromkeys(files.values())], preload=False).stdout.splitlines()
    why = dict(line.split("\t") for line in lines if "\t" in line)
    return {name: why[file] for name, file in files.items() if file in why}


def answer(folder, name, inspect):
    """What is kept of a process: {"failed": why}, or its shares, evidence and objects."""
    try:
        result = examine(folder, name, inspect)
    except (AssertionError, OSError) as error:
        lines = str(error).strip().splitlines() or ["?"]
        return {"failed": ([line for line in lines if re.search(r"\w(Error|Exception): ", line)] or lines)[-1]}
    truth = judge.Truth(judge.truth_of(folder, name))
    return {"share": result.share(), "steps": [result.step_count, result.true_steps],
            "told": {word: result.told(word) for word in judge.EVIDENCES}, "objects": objects(result.moments, truth)}


def objects(moments, truth):
    """{"mark true-category name": {category: bytes}}: what has no name goes by its size."""
    found = collections.defaultdict(collections.Counter)
    for moment in moments[:-1]:  # the peak may be another moment on another version
        for block in moment.blocks:
            name = judge.WRAPPERS.sub("", min(truth.names.get(block.number, [str(block.bytes)])))
            found[f"{moment.name} {block.true or 'open'} {name}"][block.reported] += block.bytes
    return found


def run_programs(folder, inspect, names):
    """FOLDER gets NAME.json of those that have none."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [name for name in names if not (folder / f"{name}.json").exists()]
    for name, why in refused(wanted).items() if wanted else ():
        (folder / f"{name}.json").write_text(json.dumps({"failed": why}))
    wanted = [name for name in wanted if not (folder / f"{name}.json").exists()]
    for first in range(0, len(wanted), BATCH):
        names = wanted[first:first + BATCH]
        for name in names:
            (folder / f"{name}.failed").unlink(missing_ok=True)
        judge.run(folder, names, inspect, VRAMTRACE_INSPECT="1" if inspect else "0")
        write_answers(folder, names, inspect)


def write_answers(folder, names, inspect):
    for name in names:
        (folder / f"{name}.json").write_text(json.dumps(answer(folder, name, inspect)))
        for file in (folder / f"{name}.vrt", folder / f"{name}.truth"):
            file.unlink(missing_ok=True)


def run_kinds(folder, inspect, kinds, ranks=RANKS):
    folder.mkdir(parents=True, exist_ok=True)
    names = {kind: [f"{kind}-{rank}" for rank in range(ranks)] for kind in kinds}
    wanted = [kind for kind in kinds if not all((folder / f"{name}.json").exists() for name in names[kind])]
    if wanted:
        command = [helpers.PYTHON, HERE / "sharded/kinds.py", folder, "--ranks", ranks, *wanted, *(["--inspect"] if inspect else [])]
        helpers.run(command, folder / "%p.vrt", timeout=1800, VRAMTRACE_INSPECT="1" if inspect else "0",
                    VRAMTRACE_STANDIN_DEVICES=str(ranks))
    for kind in wanted:
        write_answers(folder, names[kind], inspect)


def answers(folder):
    return {file.stem: json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))}


# ---- Comparing ----


def differences(found):
    """(true category, {words: versions}, bytes) of objects that all have, and whose categories differ. FOUND: {version: objects}."""
    common = set.intersection(*(set(objects) for objects in found.values())) if found else set()
    largest = {}
    for key in common:
        words = collections.defaultdict(list)
        for version, objects in found.items():
            words["+".join(sorted(objects[key]))].append(version)
        if len(words) > 1:
            kind = key.split(" ")[1], tuple((word, tuple(versions)) for word, versions in words.items())
            largest[kind] = max(largest.get(kind, (0, "")), (max(sum(objects[key].values()) for objects in found.values()), key))
    return [(true, words, *most) for (true, words), most in sorted(largest.items())]


def known_differences(found):
    """Without those whose category the truth leaves open."""
    return [each for each in differences(found) if each[0] != "open"]


def compared(found, version):
    """{True category: bytes} of this version's objects, of those that all have ("") and of the others."""
    common = set.intersection(*map(set, found.values()))
    sizes = collections.Counter()
    for key, words in found[version].items():
        sizes["" if key in common else key.split(" ")[1]] += sum(words.values())
    return sizes


def ran(found):
    return {name: each for name, each in found.items() if "failed" not in each}


def wrong_of(each):
    return 1 - each["share"]


# ---- Printing ----

TEXT = """*programs*: those that ran, of {} (`--every`: a part of them). *right*: those of which 99.9 % of the bytes are in
their true category, at the worst moment ([how](../attribution.md#how-it-is-checked)). *exact*, *strong*, *weak*: wrong bytes, of those
that carry the word. An object is what the program's own truth knows by a name, at a mark; what has no name goes by its size.
*compared*: bytes of objects that all versions have. The others, by their true category, differ because PyTorch allocates differently:
2.15 takes a workspace of cuBLAS for each call.
"""
KINDS_TEXT = "The worst rank's share of wrong bytes; *ranks differ*: the same object has other categories on another rank."


def corpus_rows(found):
    yield "| PyTorch | mode | programs | right | exact | strong | weak | compared | others, MiB |\n|---|---|--:|--:|--:|--:|--:|--:|---|"
    for version, modes in found.items():
        for mode, programs in modes.items():
            done = ran(programs)
            if not done:
                continue
            told = {word: [sum(column) for column in zip(*(each["told"][word] for each in done.values()))] for word in judge.EVIDENCES}
            wrong = " | ".join(f"{bytes_wrong / bytes_told:.3%}" if bytes_told else "–" for bytes_told, bytes_wrong in told.values())
            sizes = sum((compared(objects_of(found, mode, name), version) for name in done), collections.Counter())
            shared = share_of(sizes[""], sum(sizes.values()))
            others = ", ".join(f"{true} {size / 2**20:,.0f}" for true, size in sizes.most_common(4) if true)
            yield (f"| {version} | {SHORT[mode]} | {len(done)} | {sum(each['share'] >= RIGHT for each in done.values())} | {wrong} | "
                   f"{shared} | {others} |")


def objects_of(found, mode, name):
    return {version: modes[mode][name]["objects"] for version, modes in found.items() if name in ran(modes.get(mode, {}))}


def names_in(found, mode):
    return dict.fromkeys(name for modes in found.values() for name in modes.get(mode, ()))


def difference_rows(found):
    yield "| program | mode | truth | categories | largest |\n|---|---|---|---|---|"
    for mode in MODES:
        for name in names_in(found, mode):
            for true, words, size, key in differences(objects_of(found, mode, name)):
                told = "; ".join(f"{word} on {', '.join(versions)}" for word, versions in words)
                yield f"| {name} | {SHORT[mode]} | {true} | {told} | {size / 2**10:,.1f} KiB, {key.split(' ')[0]} |"


def value_rows(found, value, shown, matter):
    """A value of each program on each version, where the values of all MATTER."""
    yield "| program | mode | " + " | ".join(found) + " |\n|---|---|" + "--:|" * len(found)
    for mode in MODES:
        for name in names_in(found, mode):
            values = [value(ran(modes[mode])[name]) if name in ran(modes[mode]) else None for modes in found.values()]
            if matter(set(values) - {None}):
                yield f"| {name} | {SHORT[mode]} | " + " | ".join("–" if each is None else shown(each) for each in values) + " |"


def failed_rows(found):
    yield "| PyTorch | why | programs |\n|---|---|---|"
    for version, modes in found.items():
        why = collections.defaultdict(dict)
        for name, each in ((name, each) for programs in modes.values() for name, each in programs.items()):
            if "failed" in each:
                why[re.sub(r"0x[0-9a-f]+|\||\(/\S+", "…", each["failed"])[:140]][name] = True
        for reason, names in why.items():
            yield f"| {version} | {reason} | {', '.join(names)} |"


def kind_rows(found):
    yield "| kind | mode | " + " | ".join(found) + " | same on all versions |\n|---|---|" + "--:|" * len(found) + "---|"
    for kind in KINDS:
        for mode in MODES:
            cells, by_version = [], {}
            for version, modes in found.items():
                ranks = {name: each for name, each in modes.get(mode, {}).items() if name.rpartition("-")[0] == kind}
                failed = [each["failed"] for each in ranks.values() if "failed" in each]
                if not ranks or failed:
                    cells.append(failed[0][:60] if failed else "–")
                    continue
                uneven = known_differences({rank: each["objects"] for rank, each in ranks.items()})
                cells.append(f"{max(map(wrong_of, ranks.values())):.2%}{', ranks differ' if uneven else ''}")
                by_version[version] = ranks
            if by_version:
                same = not any(known_differences({version: ranks[rank]["objects"] for version, ranks in by_version.items()})
                               for rank in next(iter(by_version.values())))
                word = "–" if len(by_version) < 2 else "yes" if same else "no"
                yield f"| {kind} | {SHORT[mode]} | {' | '.join(cells)} | {word} |"


def page(folder, versions):
    corpus = {version: {mode: answers(folder / version / mode) for mode in MODES} for version in versions}
    kinds = {version: {mode: answers(folder / version / f"kinds-{mode}") for mode in MODES} for version in versions}
    yield helpers.made_here("The same programs on several versions of PyTorch", "tests/corpus/versions.py > docs/results/versions.md",
                            f"PyTorch {', '.join(versions)}, Simulated GPU")
    yield from (TEXT.format(len(catalogue.names(*catalogue.CATEGORIES))), "## Corpus", "", *corpus_rows(corpus), "")
    yield from ("## Programs with wrong bytes", "",
                *value_rows(corpus, wrong_of, "{:.2%}".format, lambda wrong: max(wrong, default=0) > 1 - RIGHT), "")
    yield from ("## Objects whose category differs", "", "*open*: the truth leaves it open.", "", *difference_rows(corpus), "")
    yield from ("## Programs whose steps are counted otherwise", "",
                *value_rows(corpus, lambda each: each["steps"][0], str, lambda counts: len(counts) > 1), "")
    yield from ("## Programs that do not run", "", *failed_rows(corpus), "")
    yield from (f"## Kinds of parallel training, {RANKS} ranks", "", KINDS_TEXT, "", *kind_rows(kinds), "", *difference_rows(kinds))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("versions", nargs="*", metavar="VERSION", help=f"default: {' '.join(VERSIONS)}")
    parser.add_argument("--python", action="append", default=[], metavar="VERSION=INTERPRETER")
    parser.add_argument("--every", type=int, default=1, metavar="N")
    parser.add_argument("--mode", choices=MODES, help="default: both")
    parser.add_argument("--only", choices=("corpus", "kinds", "table"), help="table: of what FOLDER has")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER")
    arguments = parser.parse_intermixed_args()
    given, versions = dict(each.split("=") for each in arguments.python), arguments.versions or VERSIONS
    names = catalogue.names(*catalogue.CATEGORIES)[::arguments.every]
    with contextlib.nullcontext(arguments.keep) if arguments.keep else tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for version in versions if arguments.only != "table" else ():
            use(interpreter(version, given))
            for mode in [arguments.mode] if arguments.mode else MODES:
                if arguments.only != "corpus":
                    run_kinds(folder / version / f"kinds-{mode}", MODES[mode], kinds_of(version))
                if arguments.only != "kinds":
                    run_programs(folder / version / mode, MODES[mode], names)
        print(*page(folder, versions), sep="\n")


if __name__ == "__main__":
    main()
