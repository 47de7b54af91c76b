"""What libvramtrace.so shows to a process, and that the table of hooks is complete."""
import re
import subprocess

from harness import HERE, LIBRARIES

ROOT = HERE.parent.parent
TABLE = re.findall(r"^(VT_\w+)\((\w+)", (ROOT / "preload" / "hooks" / "hooks.def").read_text(), re.M)
RELEASES = ("libcudart.so.11.0", "libcudart.so.12", "libcudart.so.13")

# What the recorder's files add to the hooks' own library.
RECORDER = {
    "dlclose", "_exit", "_Exit",
    "vramtrace_inspect", "vramtrace_mark", "vramtrace_range_push", "vramtrace_range_pop", "vramtrace_start", "vramtrace_stop",
    "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE",
    "_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE",
    "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE",
    "_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE",
    "_ZN2at15sequence_number17get_and_incrementEv",
    "_ZN3c104cuda20CUDACachingAllocator20setAllocatorSettingsERKSs",
    "_ZN3c104cuda20CUDACachingAllocator20setAllocatorSettingsERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
    "_ZN3c1016CachingAllocator26AcceleratorAllocatorConfig9parseArgsERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
    *(f"_ZN5torch4cuda22CUDAPluggableAllocator22CUDAPluggableAllocator{method}"
      for method in ("6mallocEmaP11CUstream_st", "6mallocEmiP11CUstream_st", "10raw_deleteEPv")),
    "_ZN3tsl12BFCAllocator11AllocateRawEmmRKNS_20AllocationAttributesE",
    "_ZN3tsl12BFCAllocator13DeallocateRawEPv",
    *(f"_ZN{space}13device_buffer{method}" for method in ("14allocate_asyncEm", "16deallocate_asyncEv")
      for space in ("3rmm", "3rmm9_RMM_26_8", "3rmm10_RMM_26_10", "3rmm10_RMM_26_12", "3rmm9_RMM_27_2", "3rmm9_RMM_27_4",
                    "3rmm9_RMM_27_6", "3rmm9_RMM_27_8", "3rmm10_RMM_27_10", "3rmm10_RMM_27_12")),
    "ggml_backend_alloc_ctx_tensors_from_buft",
    "_ZN6paddle8platform14RecordMemEventC1EPKvRKN3phi5PlaceEmNS4_18TracerMemEventTypeE",
}


def names(kind):
    return [name for row, name in TABLE if row == kind]


def exported(library):
    lines = subprocess.check_output(["nm", "-D", "--defined-only", "--with-symbol-versions", library],
                                    text=True).splitlines()
    return sorted(line.split()[2] for line in lines if line.split()[1] != "A")


def hooked():
    return (names("VT_WRAPPED") + ["dlsym", "InitializeInjectionNvtx2"]
            + [f"{name}@{release}" for name in names("VT_RUNTIME") for release in RELEASES])


def test_exports_of_hooks():
    assert exported(LIBRARIES["lines"]) == sorted(hooked())


def test_exports_of_library():
    without_versions = {name.replace("@@VRAMTRACE_1", "") for name in exported(LIBRARIES["trace"])}
    assert without_versions == set(hooked()) | RECORDER


def test_needs_only_the_c_library():
    for library in LIBRARIES.values():
        text = subprocess.check_output(["readelf", "-dW", library], text=True)
        needed = set(re.findall(r"NEEDED.*\[(.*)\]", text))
        assert needed <= {"libc.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-aarch64.so.1"}


def test_table_is_complete():
    driver = {name for row, name in TABLE if name.startswith("cu") and not name.startswith("cuda")}
    wanted = set((HERE / "driver_symbols.txt").read_text().split())
    assert wanted <= driver
    assert {name for row, name in TABLE if name in driver - wanted} <= set(names("VT_NEEDED"))


def test_table_is_sorted_and_unique():
    every = [name for _, name in TABLE]
    assert every == sorted(set(every))


def test_unhooked_rows_say_why():
    text = (ROOT / "preload" / "hooks" / "hooks.def").read_text()
    assert all(why for why in re.findall(r'VT_UNHOOKED\(\w+, "(.*)"\)', text))
    assert len(re.findall(r'VT_UNHOOKED\(\w+, ".+"\)', text)) == len(names("VT_UNHOOKED"))
