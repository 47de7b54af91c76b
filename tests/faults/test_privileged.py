"""A set-uid program under /etc/ld.so.preload: the settings of whoever starts it make it write nothing."""
import os
import pathlib
import subprocess
import sys
import tempfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import BUILD, LIBRARY  # noqa: E402

PROGRAM = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <sys/auxv.h>
int main(void)
{
    void *cuda = dlopen(DRIVER, RTLD_NOW), *context;
    unsigned long long address = 0;
    ((int (*)(int))dlsym(cuda, "cuInit"))(0);
    ((int (*)(void **, int, int))dlsym(cuda, "cuCtxCreate_v2"))(&context, 0, 0);
    ((int (*)(unsigned long long *, unsigned long))dlsym(cuda, "cuMemAlloc_v2"))(&address, 4096);
    printf("%lu %d\n", getauxval(AT_SECURE), address != 0);
    return 0;
}
"""
# In a mount namespace of its own.
RUN = """
set -e
cd "$FOLDER"
echo "$FOLDER/libvramtrace.so" >preload
[ -e /etc/ld.so.preload ] || { mkdir upper work; mount -t tmpfs tmpfs upper; mkdir upper/up upper/work
    mount -t overlay overlay -o lowerdir=/etc,upperdir=upper/up,workdir=upper/work /etc; touch /etc/ld.so.preload; }
mount --bind preload /etc/ld.so.preload
exec setpriv --reuid 1234 --regid 1234 --clear-groups ./program
"""


@pytest.mark.parametrize("privileged", [False, True], ids=["ordinary", "set-uid"])
def test_settings_of_a_set_uid_program(privileged):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    with tempfile.TemporaryDirectory() as name:
        folder, out = pathlib.Path(name), pathlib.Path(name, "out")
        folder.chmod(0o755)
        out.mkdir()
        out.chmod(0o777)
        for library in (LIBRARY, BUILD / "simulate" / "libcuda.so.1"):
            (folder / library.name).write_bytes(library.read_bytes())
        (folder / "program.c").write_text(PROGRAM)
        subprocess.run(["cc", f'-DDRIVER="{folder}/libcuda.so.1"', "-o", folder / "program", folder / "program.c", "-ldl"], check=True)
        os.chown(folder / "program", 1, 1)
        (folder / "program").chmod(0o4755 if privileged else 0o755)
        done = subprocess.run(["unshare", "-m", "sh", "-c", RUN], capture_output=True, text=True,
                              env={"PATH": os.environ["PATH"], "FOLDER": name, "VRAMTRACE_OUT": f"{out}/x.vrt", "VRAMTRACE_QUIET": "0"})
        if done.returncode and not done.stdout:
            pytest.skip(f"no mount namespace here: {done.stderr.strip()}")
        if done.stdout.startswith("0") and privileged:
            pytest.skip("set-uid programs are not privileged on this file system")
        assert done.stdout == f"{privileged:d} 1\n"
        assert [path.name for path in out.iterdir()] == ([] if privileged else ["x.vrt"])
        assert privileged == ("vramtrace" not in done.stderr)
