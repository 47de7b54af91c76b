"""However a program reaches libcuda, each of its allocations is recorded exactly once."""
import pytest

from harness import HERE, PROGRAMS, STANDIN, check_exactly_once, run


def test_linked(tmp_path, recorder):
    done = run(tmp_path, ["way_linked"], recorder)
    check_exactly_once(done)
    assert {e.device for e in done.of("alloc")} == {0}
    assert all(e.stack == 1 for e in done.of("alloc"))
    assert {e.function for e in done.of("alloc")} == {"cuMemAlloc_v2", "cuMemAllocManaged", "cuMemHostAlloc"}


def test_linked_bound_at_start(tmp_path, recorder):
    check_exactly_once(run(tmp_path, ["way_linked"], recorder, LD_BIND_NOW=1))


@pytest.mark.parametrize("mode", ["dlsym", "null", "default", "next", "procaddress1", "procaddress2",
                                  "procaddress2-again", "threads"])
def test_looked_up(tmp_path, recorder, mode):
    check_exactly_once(run(tmp_path, ["way_lookup", mode], recorder))


@pytest.mark.parametrize("mode", ["dlsym", "procaddress2"])
def test_absolute_path(tmp_path, recorder, mode):
    check_exactly_once(run(tmp_path, ["way_lookup", mode], recorder, WAY_PATH=STANDIN / "libcuda.so.1",
                           LD_LIBRARY_PATH=""))


@pytest.mark.parametrize("plugin", ["way_linked_plugin.so", "way_lookup_plugin.so", "way_constructor.so"])
def test_plugin(tmp_path, recorder, plugin):
    check_exactly_once(run(tmp_path, ["way_host", PROGRAMS / plugin], recorder))


def test_two_plugins(tmp_path, recorder):
    plugins = [PROGRAMS / "way_lookup_plugin.so", PROGRAMS / "way_linked_plugin.so"]
    check_exactly_once(run(tmp_path, ["way_host"] + plugins, recorder))


@pytest.mark.parametrize("plugin", ["way_linked_plugin.so", "way_runtime_plugin.so"])
def test_unloaded_and_loaded_elsewhere(tmp_path, recorder, plugin):
    """Libraries that go away and come back at another address: no stale pointer is called."""
    done = run(tmp_path, ["way_host"] + [PROGRAMS / plugin] * 4, recorder, WAY_UNLOAD=1)
    check_exactly_once(done)
    plain = run(tmp_path, ["way_host"] + [PROGRAMS / plugin] * 2, None, WAY_UNLOAD=1)
    if plugin == "way_linked_plugin.so":  # libcudart never closes its driver
        assert plain.output.count("unloaded 1") == 2
        # the recorder's writer thread keeps the driver loaded from its start on
        assert recorder == "trace" or "unloaded 1" in done.output


@pytest.mark.parametrize("program", ["way_lazy", "way_lazy_first"])
def test_functions_that_load_libcuda(tmp_path, recorder, program):
    """The names belong to a library of the program, which loads libcuda when first called."""
    done, plain = run(tmp_path, [program], recorder), run(tmp_path, [program], None)
    check_exactly_once(done)
    assert plain.returncode == 0
    if program == "way_lazy_first":
        assert done.output.splitlines()[0] == plain.output.splitlines()[0] == "before cuInit 3"


def test_other_dlsym_after_ours(tmp_path, recorder):
    done = run(tmp_path, ["way_lookup", "dlsym"], recorder, LD_PRELOAD=f"RECORDER {PROGRAMS / 'other_dlsym.so'}")
    check_exactly_once(done)
    plain = run(tmp_path, ["way_lookup", "dlsym"], None, LD_PRELOAD=PROGRAMS / "other_dlsym.so")
    assert done.error == plain.error == "other dlsym: 8\n"


def test_other_dlsym_before_ours(tmp_path, recorder):
    """It asks the C library's alone, so we see nothing of this program; it runs as ever."""
    done = run(tmp_path, ["way_lookup", "dlsym"], recorder, LD_PRELOAD=f"{PROGRAMS / 'other_dlsym.so'} RECORDER")
    assert done.returncode == 0 and done.error == "other dlsym: 8\n" and not done.recorded


def test_constructor_of_preload(tmp_path, recorder):
    """Before main, and before our own library's turn."""
    check_exactly_once(run(tmp_path, ["way_host"], recorder,
                           LD_PRELOAD=f"{PROGRAMS / 'way_constructor.so'} RECORDER"))


def test_ctypes(tmp_path, recorder):
    check_exactly_once(run(tmp_path, ["python", HERE / "programs" / "way_ctypes.py"], recorder))


@pytest.mark.parametrize("program", ["way_linked", "lookup_answers"])
def test_same_answers(tmp_path, recorder, program):
    """What a program sees of lookups does not change."""
    def without_addresses(text):
        return [line.split("0x")[0] for line in text.splitlines()]

    plain, hooked = run(tmp_path, [program], None), run(tmp_path, [program], recorder)
    assert without_addresses(plain.output) == without_addresses(hooked.output)
    assert plain.returncode == hooked.returncode == 0
    assert hooked.error == ""


def test_nothing_without_cuda(tmp_path, recorder):
    done = run(tmp_path, ["/bin/true"], recorder)
    assert done.returncode == 0 and not done.recorded
