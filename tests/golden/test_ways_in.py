"""However a program reaches libcuda, each of its allocations is recorded exactly once."""
import pytest

from harness import HERE, PROGRAMS, SHIM, STANDIN, check_exactly_once, run


def test_linked(tmp_path):
    done = run(tmp_path, ["way_linked"])
    check_exactly_once(done)
    assert {e.device for e in done.of("alloc")} == {0}
    assert all(e.stack == 1 for e in done.of("alloc"))
    assert {e.function for e in done.of("alloc")} == {"cuMemAlloc_v2", "cuMemAllocManaged", "cuMemHostAlloc"}


def test_linked_bound_at_start(tmp_path):
    check_exactly_once(run(tmp_path, ["way_linked"], LD_BIND_NOW=1))


@pytest.mark.parametrize("mode", ["dlsym", "null", "default", "next", "procaddress1", "procaddress2",
                                  "procaddress2-again", "threads"])
def test_looked_up(tmp_path, mode):
    check_exactly_once(run(tmp_path, ["way_lookup", mode]))


@pytest.mark.parametrize("mode", ["dlsym", "procaddress2"])
def test_absolute_path(tmp_path, mode):
    check_exactly_once(run(tmp_path, ["way_lookup", mode], WAY_PATH=STANDIN / "libcuda.so.1", LD_LIBRARY_PATH=""))


@pytest.mark.parametrize("plugin", ["way_linked_plugin.so", "way_lookup_plugin.so", "way_constructor.so"])
def test_plugin(tmp_path, plugin):
    check_exactly_once(run(tmp_path, ["way_host", PROGRAMS / plugin]))


def test_two_plugins(tmp_path):
    check_exactly_once(run(tmp_path, ["way_host", PROGRAMS / "way_lookup_plugin.so",
                                      PROGRAMS / "way_linked_plugin.so"]))


@pytest.mark.parametrize("plugin", ["way_linked_plugin.so", "way_runtime_plugin.so"])
def test_unloaded_and_loaded_elsewhere(tmp_path, plugin):
    """Libraries that go away and come back at another address: no stale pointer is called."""
    done = run(tmp_path, ["way_host"] + [PROGRAMS / plugin] * 4, WAY_UNLOAD=1)
    check_exactly_once(done)
    plain = run(tmp_path, ["way_host"] + [PROGRAMS / plugin] * 2, WAY_UNLOAD=1, shim=None)
    if plugin == "way_linked_plugin.so":  # libcudart never closes its driver
        assert plain.output.count("unloaded 1") == 2 and "unloaded 1" in done.output


@pytest.mark.parametrize("program", ["way_lazy", "way_lazy_first"])
def test_functions_that_load_libcuda(tmp_path, program):
    """The names belong to a library of the program, which loads libcuda when first called."""
    done, plain = run(tmp_path, [program]), run(tmp_path, [program], shim=None)
    check_exactly_once(done)
    assert plain.returncode == 0
    if program == "way_lazy_first":
        assert done.output.splitlines()[0] == plain.output.splitlines()[0] == "before cuInit 3"


def test_other_dlsym_after_ours(tmp_path):
    done = run(tmp_path, ["way_lookup", "dlsym"], LD_PRELOAD=f"{SHIM} {PROGRAMS / 'other_dlsym.so'}")
    check_exactly_once(done)
    plain = run(tmp_path, ["way_lookup", "dlsym"], LD_PRELOAD=PROGRAMS / "other_dlsym.so")
    assert done.error == plain.error == "other dlsym: 8\n"


def test_other_dlsym_before_ours(tmp_path):
    """It asks the C library's alone, so we see nothing of this program; it runs as ever."""
    done = run(tmp_path, ["way_lookup", "dlsym"], LD_PRELOAD=f"{PROGRAMS / 'other_dlsym.so'} {SHIM}")
    assert done.returncode == 0 and done.error == "other dlsym: 8\n" and done.lines == []


def test_constructor_of_preload(tmp_path):
    """Before main, and before our own library's turn."""
    check_exactly_once(run(tmp_path, ["way_host"], LD_PRELOAD=f"{PROGRAMS / 'way_constructor.so'} {SHIM}"))


def test_ctypes(tmp_path):
    check_exactly_once(run(tmp_path, ["python", HERE / "programs" / "way_ctypes.py"]))


@pytest.mark.parametrize("program", ["way_linked", "lookup_answers"])
def test_same_answers(tmp_path, program):
    """What a program sees of lookups does not change."""
    def without_addresses(text):
        return [line.split("0x")[0] for line in text.splitlines()]

    plain, hooked = run(tmp_path, [program], shim=None), run(tmp_path, [program])
    assert without_addresses(plain.output) == without_addresses(hooked.output)
    assert plain.returncode == hooked.returncode == 0
    assert hooked.error == ""


def test_nothing_without_cuda(tmp_path):
    done = run(tmp_path, ["/bin/true"])
    assert done.returncode == 0 and done.lines == []
