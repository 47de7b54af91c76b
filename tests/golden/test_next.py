"""dlsym(RTLD_NEXT, …) answers what it would without the recorder, but that a function of libcuda found is our wrapper."""
import itertools
import re

import pytest

from harness import PROGRAMS, run

HOOKED = ("cuMemAlloc_v2", "cuMemFree_v2", "cuGetProcAddress_v2")
ASKERS = ("asker", "asker_linked", "asker_defines", "asker_linked_defines")
PROGRAMS_AND_ASKERS = list(itertools.product(["next_answers", "next_answers_linked"], ASKERS))


def library(asker):
    return PROGRAMS / f"libnext_{asker}.so"


def answers(tmp_path, recorder, command, preload=None):
    extra = {} if preload is None else {"LD_PRELOAD": preload}
    done = run(tmp_path, command, recorder, **extra)
    assert done.returncode == 0 and done.error == "", done.output + done.error
    return done.output.splitlines()


def hooked(line):
    """The answer that is wanted, from the one without the recorder."""
    words = line.split(": ")
    if len(words) > 2 and words[1] in HOOKED:
        return line.replace(": libcuda.so.1,", ": libvramtrace.so,")
    return line


def check(tmp_path, command, preload="", unsure="nobody"):
    """`unsure`: a pattern of who may be given libcuda's own function, since it cannot be known what is searched for it."""
    plain = answers(tmp_path, None, command, preload.replace("RECORDER", "").strip() or None)
    seen = answers(tmp_path, "lines", command, preload or None)
    for before, after in zip(plain, seen, strict=True):
        if after == before and re.match(unsure, before):
            continue
        assert after == hooked(before)
    return [line for line in seen if "libvramtrace.so" in line]


@pytest.mark.parametrize("program", ["next_answers", "next_answers_linked"])
def test_program(tmp_path, program):
    seen = check(tmp_path, [program])
    moments = {line.split(":")[0] for line in seen}
    everywhere = {f"program, {when}" for when in ("at the start", "with plugins", "libcuda local", "libcuda global")}
    assert moments == (everywhere if program == "next_answers_linked" else {"program, libcuda global"})


@pytest.mark.parametrize("order", ["{} RECORDER", "RECORDER {}"])
@pytest.mark.parametrize("program, asker", PROGRAMS_AND_ASKERS)
def test_preloaded(tmp_path, program, asker, order):
    """A tool before us, and one after us."""
    # Behind us, a tool's own definition hides what has been opened globally since.
    unsure = r"library, libcuda global: cuMemAlloc_v2" if order == "RECORDER {}" and asker == "asker_defines" else "nobody"
    seen = check(tmp_path, [program], order.format(library(asker)), unsure)
    if "linked" in program + asker:
        assert any(line.startswith("library, at the start: cuMemAlloc_v2") for line in seen)


@pytest.mark.parametrize("linked", ["", "_linked"])
@pytest.mark.parametrize("asker", ASKERS)
def test_library_of_program(tmp_path, asker, linked):
    unsure = r"library, libcuda global: cuMemAlloc_v2" if asker == "asker_defines" else "nobody"
    seen = check(tmp_path, [f"next_answers{linked}_with_{asker}"], unsure=unsure)
    if "linked" in asker + linked:
        assert any(line.startswith("library, at the start: cuMemFree_v2") for line in seen)


@pytest.mark.parametrize("program, asker", PROGRAMS_AND_ASKERS)
def test_plugin(tmp_path, program, asker):
    unsure = r"plugin 0, .*: cuMemAlloc_v2" if asker == "asker_linked_defines" else "nobody"
    seen = check(tmp_path, [program, library(asker)], unsure=unsure)
    if asker == "asker_linked":
        assert any(line.startswith("plugin 0, with plugins: cuMemAlloc_v2") for line in seen)


@pytest.mark.parametrize("program, asker", PROGRAMS_AND_ASKERS)
def test_plugin_of_plugin(tmp_path, program, asker):
    check(tmp_path, [program, PROGRAMS / f"next_outer_{asker}.so"], unsure="plugin 0")


def test_plugins_that_share(tmp_path):
    """The second finds its library loaded by the first, and the third is that library."""
    plugins = [PROGRAMS / f"next_outer_{asker}.so" for asker in ("asker", "asker_linked")]
    check(tmp_path, ["next_answers", *plugins, library("asker_linked"), library("asker")], unsure="plugin")
