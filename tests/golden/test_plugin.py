"""XLA's plugins that lack some of the functions which we call: their tables stay as they are."""
import re
import subprocess

import pytest

from harness import HERE, LIBRARIES, STANDIN, environment

CALLED = [int(place) for place in re.findall(r"^VT_PJRT_CALLED\(\w+, (\d+)\)",
                                             (HERE.parents[1] / "preload/hooks/pjrt.def").read_text(), re.M)]
PLUGIN = r"""
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
struct table { size_t bytes; void *header[4]; void *(*functions[140])(void *); };
struct question { size_t bytes; void *extension; uint64_t *object; uint64_t answer, more; };
static void *answer_zero(void *asked) { ((struct question *)asked)->answer = 0; return NULL; }
static void *tell_kind(void *asked) { struct question *kind = asked; kind->answer = (uintptr_t)"device"; kind->more = 6; return NULL; }
static void *tell_first(void *asked) { struct question *place = asked; place->answer = place->object[0]; return NULL; }
static void *tell_second(void *asked) { struct question *size = asked; size->answer = size->object[1]; return NULL; }
static void *let_go(void *asked) { free(((struct question *)asked)->object); return NULL; }
static void *make(void *arguments)
{
    uint64_t *buffer = malloc(16);
    buffer[0] = ((uint64_t *)arguments)[1];
    buffer[1] = 1000;
    memcpy((char *)arguments + 112, &buffer, sizeof buffer);
    return NULL;
}
const struct table *GetPjrtApi(void)
{
    static struct table table = {.bytes = sizeof table};
    for (int i = 0; i < 140; i++)
        table.functions[i] = answer_zero;
    table.functions[22] = make;
    table.functions[36] = tell_kind;
    table.functions[58] = let_go;
    table.functions[64] = tell_second;
    table.functions[73] = tell_first;
    if (getenv("WITHOUT"))
        table.functions[atoi(getenv("WITHOUT"))] = NULL;
    return &table;
}
"""
PROGRAM = r"""
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
typedef int call();
struct table { size_t bytes; void *header[4]; void *(*functions[140])(void *); };
int main(int count, char **words)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *plugin = dlopen(words[count - 1], RTLD_NOW), *context, *address;
    const struct table *(*entry)(void) = (const struct table *(*)(void))dlsym(plugin, "GetPjrtApi");
    uint64_t arguments[16] = {0}, question[5] = {40};
    if (((call *)dlsym(driver, "cuInit"))(0) || ((call *)dlsym(driver, "cuDevicePrimaryCtxRetain"))(&context, 0) ||
        ((call *)dlsym(driver, "cuCtxSetCurrent"))(context) || ((call *)dlsym(driver, "cuMemAlloc_v2"))(&address, (size_t)1 << 20))
        return 1;
    const struct table *table = entry();
    arguments[1] = (uintptr_t)address;
    if (table->functions[22](arguments))
        return 2;
    question[2] = arguments[14];
    if (table->functions[58] && table->functions[58](question))
        return 3;
    puts("made");
    return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plugin")
    for name, text, options in (("libfake_cuda_plugin.so", PLUGIN, ["-shared", "-fPIC"]), ("program", PROGRAM, [])):
        (folder / f"{name}.c").write_text(text)
        subprocess.run(["cc", "-std=gnu11", "-O1", "-o", folder / name, folder / f"{name}.c", *options, "-ldl"], check=True)
    return folder


@pytest.mark.parametrize("without", [None, *CALLED])
def test_tables_that_are_not_whole(program, tmp_path, without):
    trace = tmp_path / "run.vrt"
    settings = {} if without is None else {"WITHOUT": without}
    done = subprocess.run([program / "program", program / "libfake_cuda_plugin.so"], text=True, capture_output=True, timeout=60,
                          env=environment(LIBRARIES["trace"], VRAMTRACE_OUT=trace, LD_LIBRARY_PATH=STANDIN, **settings), check=False)
    assert (done.returncode, done.stdout) == (0, "made\n")
    assert ("peak 1000 B" in done.stderr) == (without is None), done.stderr
