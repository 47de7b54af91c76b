/* A stand-in for the recorder (preload/hooks/observe.h): appends each observation as one line of text to the
 * file named by VT_DOUBLE_OUT, so that the hooks can be tested by themselves. */
#include "functions.h"
#include "guard.h"
#include "hooks/observe.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__thread struct vt_guard vt_guard __attribute__((tls_model("initial-exec"), visibility("hidden")));

void vt_record_missed(void) {}

void vt_record_missed_free(void) {}

bool vt_guard_abandoned(uintptr_t frame)
{
    (void)frame;
    return false;
}

uint64_t (*_Atomic vt_autograd_sequence)(void);

static __thread uint16_t runtime_label;
static __thread uint64_t driver_events;
static _Atomic bool recording;
static _Atomic uint32_t known_devices;

static void write_line(const char *line, int length)
{
    const char *path = getenv("VT_DOUBLE_OUT");
    int file = path != NULL ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    recording = true;
    if (file < 0)
        return;
    if (write(file, line, (size_t)length) != length)
        abort();
    close(file);
}

void vt_record(const struct vt_observation *seen)
{
    char line[512];
    if (seen->layer == VT_LAYER_DRIVER)
        driver_events++;
    int length = snprintf(line, sizeof(line),
                          "kind=%u layer=%u device=%d flags=%u function=%s label=%s address=%lu bytes=%lu "
                          "detail=%lu total=%lu stack=%d pid=%d\n",
                          seen->kind, seen->layer, seen->device_index, seen->flags,
                          vt_function_name(seen->function), vt_function_name(runtime_label), seen->address,
                          seen->bytes, seen->detail, seen->total_bytes, seen->with_stack, (int)getpid());
    write_line(line, length);
}

bool vt_record_named(enum vt_event_kind kind, const char *text)
{
    char line[2048];
    write_line(line, snprintf(line, sizeof(line), "kind=%u layer=0%s%s\n", kind, text ? " text=" : "",
                              text ? text : ""));
    return true;
}

bool vt_record_device_known(int device_index)
{
    return known_devices >> device_index & 1;
}

void vt_record_device(int device_index, const char *name, uint64_t total_bytes, const void *uuid)
{
    char line[512];
    (void)uuid;
    if (atomic_fetch_or(&known_devices, 1u << device_index) >> device_index & 1)
        return;
    write_line(
        line, snprintf(line, sizeof(line), "device=%d total=%lu name=%s\n", device_index, total_bytes, name));
}

uint16_t vt_set_runtime_label(uint16_t function)
{
    uint16_t previous = runtime_label;
    runtime_label = function;
    return previous;
}

uint64_t vt_driver_events_of_thread(void)
{
    return driver_events;
}

bool vt_recording(void)
{
    return recording;
}
