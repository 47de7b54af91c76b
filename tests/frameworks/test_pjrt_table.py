"""pjrt.def against PJRT's own header, which TensorFlow's package has."""
import subprocess

from support import Framework
from helpers import ROOT

tensorflow = Framework("venv-tensorflow", "tensorflow")
pytestmark = tensorflow.needed
PROGRAM = r"""
#include <stddef.h>
#include "xla/pjrt/c/pjrt_c_api.h"
#define VT_PJRT_CALLED(field, place) \
    _Static_assert(offsetof(PJRT_Api, PJRT_##field) == 40 + place * sizeof(void *), #field);
#include "hooks/pjrt.def"
#define RESULT(field, member) _Static_assert(offsetof(PJRT_##field##_Args, member) == RESULT_##field, #field);
enum {
#define VT_PJRT_MAKES(field, place, result) RESULT_##field = result,
#include "hooks/pjrt.def"
};
RESULT(Client_BufferFromHostBuffer, buffer)
RESULT(Buffer_CopyToDevice, dst_buffer)
RESULT(Buffer_CopyToMemory, dst_buffer)
RESULT(AsyncHostToDeviceTransferManager_RetrieveBuffer, buffer_out)
RESULT(Client_CreateUninitializedBuffer, buffer)
_Static_assert(offsetof(PJRT_LoadedExecutable_Execute_Args, executable) == 16, "");
_Static_assert(offsetof(PJRT_LoadedExecutable_Execute_Args, argument_lists) == 32, "");
_Static_assert(offsetof(PJRT_LoadedExecutable_Execute_Args, num_devices) == 40, "");
_Static_assert(offsetof(PJRT_LoadedExecutable_Execute_Args, num_args) == 48, "");
_Static_assert(offsetof(PJRT_LoadedExecutable_Execute_Args, output_lists) == 56, "");
_Static_assert(offsetof(PJRT_Memory_Kind_Args, kind_size) == 32 && sizeof(PJRT_Memory_Kind_Args) == 40, "");
_Static_assert(offsetof(PJRT_Buffer_UnsafePointer_Args, buffer_pointer) == 24, "");
_Static_assert(offsetof(PJRT_Executable_NumOutputs_Args, num_outputs) == 24, "");
"""


def test_places_are_those_of_the_header(tmp_path):
    (tmp_path / "table.c").write_text(PROGRAM)
    done = subprocess.run(["cc", "-std=c11", "-fsyntax-only", f"-I{ROOT / 'preload'}", f"-I{tensorflow.packages}/tensorflow/include",
                           tmp_path / "table.c"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
