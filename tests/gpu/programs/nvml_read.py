"""Prints what NVML says of card 0, as JSON: bytes in use, and each process's. A process of its own, so that the one that is
recorded has no NVML."""
import ctypes
import json
import sys

NOT_AVAILABLE = (1 << 64) - 1


class Process(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("bytes", ctypes.c_ulonglong), ("gpu", ctypes.c_uint), ("compute", ctypes.c_uint)]


class Memory(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint), ("total", ctypes.c_ulonglong), ("reserved", ctypes.c_ulonglong),
                ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


def read():
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    told, card = {"used": None, "reserved": None, "total": None, "processes": None, "driver": None}, ctypes.c_void_p()
    if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(card)):
        return told
    memory = Memory(version=ctypes.sizeof(Memory) | 2 << 24)
    if hasattr(nvml, "nvmlDeviceGetMemoryInfo_v2") and nvml.nvmlDeviceGetMemoryInfo_v2(card, ctypes.byref(memory)) == 0:
        told.update(used=memory.used, reserved=memory.reserved, total=memory.total)
    count, processes = ctypes.c_uint(256), (Process * 256)()
    if nvml.nvmlDeviceGetComputeRunningProcesses_v3(card, ctypes.byref(count), processes) == 0:
        told["processes"] = {str(one.pid): None if one.bytes == NOT_AVAILABLE else one.bytes for one in processes[:count.value]}
    version = ctypes.create_string_buffer(96)
    if hasattr(nvml, "nvmlSystemGetDriverVersion") and nvml.nvmlSystemGetDriverVersion(version, 96) == 0:
        told["driver"] = version.value.decode()
    return told


if __name__ == "__main__":
    try:
        json.dump(read(), sys.stdout)
    except OSError:
        json.dump(None, sys.stdout)
