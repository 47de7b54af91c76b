/* Hostile traces for libFuzzer: its bytes are a list of records, from which a trace is made with the
 * recorder's own coder and right checksums, so that every mutation reaches what reads definitions and events.
 * Then one command reads it. Bytes that begin as an ELF file are the library of a trace's native frames.
 * tests/fuzz/fuzz.sh builds and runs it. */
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

#include "../unit/trace_builder.h"
#include "base/allocate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerInitialize(int *argc, char ***argv);
int vramtrace_main(int argc, char **argv); /* the program's */

enum { COUNT_LIMIT = 4096, TEXT_BYTES = 256, BODY_LIMIT = 8192 };
#define MIB (UINT64_C(1) << 20)

static char folder[] = "/dev/shm/vramtrace-fuzz-XXXXXX", out_path[64];

/* NULL ends each. TRACE and OUT are replaced. */
static const char TRACE[] = "TRACE", OUT[] = "OUT";
static const char *const commands[][9] = {
    {"report", TRACE},
    {"report", "--json", TRACE},
    {"report", "--full", "--by", "stack", TRACE},
    {"report", "--at", "end", "--by", "holder", TRACE},
    {"html", "-o", OUT, TRACE},
    {"leaks", "--full", TRACE},
    {"oom", "--full", TRACE},
    {"leaks", "--json", TRACE},
    {"oom", "--json", TRACE},
    {"frag", "--json", TRACE},
    {"frag", TRACE},
    {"steps", "--json", TRACE},
    {"timeline", TRACE},
    {"info", "--verify", TRACE},
    {"info", "--events", "--stacks", TRACE},
    {"annotate", "--json", TRACE},
    {"diff", "TRACE@peak", "TRACE@end"},
    {"list", "--json", TRACE},
    {"check", "--max-peak", "1", "--max-leak", "1", TRACE},
    {"export", "--format", "sqlite", "-o", OUT, TRACE},
    {"export", "--format", "perfetto", "-o", OUT, TRACE},
    {"export", "--format", "pprof", "-o", OUT, TRACE},
    {"export", "--format", "memory-viz", "-o", OUT, TRACE},
    {"export", "--format", "folded", "-o", OUT, TRACE},
};

static void run_command(size_t number, const char *trace)
{
    const char *const *words = commands[number % (sizeof commands / sizeof *commands)];
    char texts[9][96], *argv[11] = {(char *)"vramtrace"};
    int argc = 1;
    for (; words[argc - 1]; argc++) {
        const char *word = words[argc - 1];
        snprintf(texts[argc - 1], sizeof *texts, "%s%s",
                 word == OUT                            ? out_path
                 : !strncmp(word, TRACE, strlen(TRACE)) ? trace
                                                        : word,
                 strncmp(word, TRACE, strlen(TRACE)) ? "" : word + strlen(TRACE));
        argv[argc] = texts[argc - 1];
    }
    argv[argc] = NULL;
    stdout = fopen("/dev/null", "w");
    stderr = fopen("/dev/null", "w");
    vramtrace_main(argc, argv);
    if (stdout)
        fclose(stdout);
    if (stderr)
        fclose(stderr);
    unlink(out_path);
}

/* ---- The list of records ---- */

struct input {
    const uint8_t *at, *end;
};

static uint64_t take(struct input *input, size_t bytes)
{
    uint64_t number = 0;
    for (size_t i = 0; i < bytes && input->at < input->end; i++)
        number |= (uint64_t)*input->at++ << 8 * i;
    return number;
}

/* Small numbers, round ones and extremes, in one byte; 255: what the next eight say. */
static uint64_t take_number(struct input *input)
{
    const uint8_t byte = (uint8_t)take(input, 1);
    return byte < 128    ? byte
           : byte < 192  ? UINT64_C(1) << (byte - 128)
           : byte < 254  ? (uint64_t)0 - (UINT64_C(1) << (byte - 192))
           : byte == 254 ? UINT64_MAX >> 1
                         : take(input, 8);
}

/* What the analyzer knows, so that its rules find something to judge. */
static const char *const names[] = {
    "",
    "/home/user/train.py",
    "main",
    "train_step",
    "/venv/torch/nn/modules/module.py",
    "_call_impl",
    "_wrapped_call_impl",
    "forward",
    "/venv/torch/nn/modules/linear.py",
    "/venv/torch/autograd/__init__.py",
    "backward",
    "_engine_run_backward",
    "/venv/torch/_tensor.py",
    "/venv/torch/optim/adam.py",
    "/venv/torch/optim/optimizer.py",
    "step",
    "wrapper",
    "zero_grad",
    "_init_group",
    "/venv/torch/optim/sgd.py",
    "/venv/torch/utils/checkpoint.py",
    "/venv/torch/serialization.py",
    "save",
    "load",
    "to",
    "cuda",
    "convert",
    "_apply",
    "<module>",
    "<lambda>",
    "<string>",
    "/venv/torch/utils/data/dataloader.py",
    "__next__",
    "at::_ops::mm::call(at::Tensor const&, at::Tensor const&)",
    "torch::autograd::Engine::thread_main(std::shared_ptr<void> const&)",
    "c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::malloc(int, unsigned long, void*)",
    "cudaMalloc",
    "cuMemAlloc_v2",
    "/venv/torch/lib/libtorch_cuda.so",
    "/usr/lib/libcuda.so.1",
    "_ZN2at4_ops2mm4callERKNS_6TensorES4_",
    "\xff\xfe\x80",
    "\x1b[31mred",
    "P\tgradients\t1\t2\n",
    "T\t0x1000\t4096\tparameter\tlayer.weight\t[4,4]\n",
    "/venv/transformers/trainer.py",
    "training_step",
    "/venv/deepspeed/runtime/engine.py",
    "/venv/vllm/worker.py",
    "generate",
    "</script><script>",
    "../../etc/passwd",
    "a b'\"$c",
};
enum { NAMES = sizeof names / sizeof *names };

/* A known text, or the next bytes. */
static const char *take_text(struct input *input, char text[TEXT_BYTES])
{
    const size_t which = take(input, 1);
    if (which < 192)
        return names[which % NAMES];
    const size_t bytes = which - 192;
    for (size_t i = 0; i < bytes; i++)
        text[i] = (char)take(input, 1);
    text[bytes] = 0;
    return text;
}

struct made {
    struct builder *builder;
    uint32_t stacks, codes;
    struct vt_event last;
    bool in_ring;
};

static void make_event(struct made *made, struct input *input)
{
    struct vt_event event = {.kind = (uint8_t)take(input, 1) % 48, .layer = (uint8_t)take(input, 1) % 4};
    const uint8_t filled = (uint8_t)take(input, 1);
    event.stack_id = (uint32_t)take(input, 2) % (made->stacks + 2);
    event.address = filled & 1 ? take_number(input) : (take(input, 1) + 1) << 32;
    event.bytes = filled & 2 ? take_number(input) : (take(input, 1) + 1) * MIB;
    event.detail = filled & 4 ? take_number(input) : 0;
    event.total_bytes = filled & 8 ? take_number(input) : 0;
    event.sequence = filled & 16 ? take_number(input) : 0;
    event.flags = filled & 32 ? (uint8_t)take(input, 1) : 0;
    event.device_index = filled & 64 ? (int8_t)take(input, 1) : 0;
    event.t_ns = filled & 128 ? made->last.t_ns + take_number(input) : 0;
    made->last = event;
    builder_event(made->builder, event);
}

static void make_stack(struct made *made, struct input *input)
{
    uint64_t native[8];
    struct vt_python_frame python[8] = {0};
    const uint16_t natives = (uint16_t)(take(input, 1) % 8), pythons = (uint16_t)(take(input, 1) % 8);
    for (uint16_t i = 0; i < natives; i++)
        native[i] = 0x1000 + (take_number(input) << 4);
    for (uint16_t i = 0; i < pythons; i++) {
        python[i].code_id = (uint32_t)take(input, 1) % (made->codes + 2);
        python[i].instruction_offset = (int32_t)take(input, 1);
    }
    builder_stack_at(made->builder, (uint32_t)take(input, 1) % 4 + 1, (uint32_t)take(input, 1) % 8, native,
                     natives, python, pythons);
    made->stacks++;
}

/* A definition of any kind with any body. */
static void make_raw(struct made *made, struct input *input)
{
    static struct {
        struct vt_record_head head;
        uint8_t body[BODY_LIMIT + 8];
    } record;
    const uint8_t kind = (uint8_t)take(input, 1);
    const uint32_t bytes = (uint32_t)take(input, 2) % BODY_LIMIT;
    record.head =
        (struct vt_record_head){.kind = kind, .committed = 1, .bytes = (uint32_t)sizeof record.head + bytes};
    for (size_t i = 0; i < bytes; i++)
        record.body[i] = (uint8_t)take(input, 1);
    memset(record.body + bytes, 0, 8);
    if (made->in_ring)
        builder_raw(made->builder, kind, record.body, bytes); /* whole slots */
    else
        builder_definitions(made->builder, &record, (sizeof record.head + bytes + 7) / 8 * 8);
    made->stacks += kind == VT_RECORD_STACK;
    made->codes += kind == VT_RECORD_CODE;
}

static bool is_in(size_t at, size_t start, size_t bytes)
{
    return at - start < bytes;
}

static void make_record(struct made *made, struct input *input)
{
    char text[TEXT_BYTES], other[TEXT_BYTES];
    struct builder *builder = made->builder;
    const uint8_t kind = (uint8_t)take(input, 1);
    if (kind < 128) {
        make_event(made, input);
        return;
    }
    switch (kind % 20) {
    case 0:
        builder_string(builder, take_text(input, text));
        break;
    case 1:
    case 2:
        make_stack(made, input);
        break;
    case 3:
    case 4: {
        const char *file = take_text(input, text);
        builder_code(builder, file, take_text(input, other), (int32_t)take_number(input));
        made->codes++;
        break;
    }
    case 5:
        builder_function(builder, (uint16_t)take(input, 1), take_text(input, text));
        break;
    case 6:
        builder_thread(builder, take(input, 1) % 4 + 1, take_text(input, text));
        break;
    case 7:
        builder_device(builder, (uint32_t)take_number(input), take_number(input), take_text(input, text));
        break;
    case 8:
        builder_symbol(builder, 0x1000 + (take_number(input) << 4), take_number(input),
                       take_text(input, text));
        break;
    case 9: {
        const uint64_t base = take_number(input);
        builder_module(builder, base, base + take_number(input), take_text(input, text), names[1],
                       (uint32_t)take(input, 1) % 20);
        break;
    }
    case 10: {
        const uint32_t parts = (uint32_t)take(input, 1) % 4;
        builder_inspection_part(builder, (uint32_t)take(input, 1) % 4, (uint32_t)take(input, 1) % 4, parts,
                                take_text(input, text));
        break;
    }
    case 11:
        make_raw(made, input);
        break;
    case 12:
        if (!made->in_ring)
            builder_end_chunk(builder);
        break;
    case 13:
        if (!made->in_ring)
            builder_end_chain(builder);
        break;
    case 14:
        if (!made->in_ring && (made->in_ring = true))
            builder_ring(builder, take(input, 1));
        break;
    case 15:
        if (made->in_ring)
            builder_unfinished(builder, 1, (int)take(input, 1) & 1);
        break;
    case 16: { /* the last event again and again: sizes, counts and times as of long traces */
        const size_t count = take(input, 1);
        const uint64_t step = take_number(input);
        for (size_t i = 0; i < count; i++) {
            made->last.address += step;
            made->last.t_ns = 0;
            builder_event(builder, made->last);
        }
        break;
    }
    case 17: {
        const char *process[] = {take_text(input, text), take_text(input, other), "/home/user",
                                 "/usr/bin/python3"};
        builder_process(builder, process, 2, 4);
        break;
    }
    default: { /* a byte of the file's header, behind its magic and version */
        const size_t at = 16 + take(input, 2) % (sizeof(struct vt_file_header) - 16);
        const uint8_t value = (uint8_t)take(input, 1);
        if (!is_in(at, offsetof(struct vt_file_header, ring_slots), sizeof(uint64_t)) &&
            !is_in(at, offsetof(struct vt_file_header, ring_path),
                   VT_RING_PATH_BYTES)) /* the builder uses these itself */
            ((uint8_t *)builder_header(builder))[at] = value;
        break;
    }
    }
}

static void read_records(const uint8_t *data, size_t bytes)
{
    struct input input = {data + 1, data + bytes};
    struct made made = {.builder = builder_new(1024)};
    builder_set_chain_events(made.builder, 64);
    for (int records = 0; input.at < input.end && records < COUNT_LIMIT; records++)
        make_record(&made, &input);
    const char *trace = builder_write(made.builder), *keep = getenv("KEEP_TRACE");
    if (keep) { /* to be kept as a test */
        size_t image_bytes;
        const uint8_t *image = builder_image(made.builder, &image_bytes);
        FILE *copy = fopen(keep, "wb");
        if (!copy || fwrite(image, 1, image_bytes, copy) != image_bytes || fclose(copy))
            abort();
    }
    run_command(data[0], trace);
    builder_free(made.builder);
}

/* ---- Libraries ---- */

static void read_library(const uint8_t *data, size_t bytes)
{
    char path[sizeof folder + 16];
    struct builder *builder = builder_new(64);
    const void *id = NULL;
    snprintf(path, sizeof path, "%s/library.so", folder);
    const int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0 || write(file, data, bytes) != (ssize_t)bytes)
        abort();
    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(file, ELF_C_READ, NULL);
    const ssize_t id_bytes = elf ? dwelf_elf_gnu_build_id(elf, &id) : 0;
    if (id_bytes > 0 && id_bytes <= 64) { /* else the analyzer leaves it alone */
        builder_module(builder, 0x10000, 0x10000 + (1 << 20), path, id, (uint32_t)id_bytes);
        for (uint64_t i = 0; i < 64; i++) {
            const uint64_t address = 0x10000 + 0x1000 + i * 37;
            const uint32_t stack = builder_stack(builder, 1, &address, 1, NULL, 0);
            builder_event(builder, (struct vt_event){.kind = VT_EVENT_ALLOC,
                                                     .layer = VT_LAYER_DRIVER,
                                                     .address = (i + 1) << 32,
                                                     .bytes = MIB,
                                                     .stack_id = stack});
        }
        run_command(2, builder_write(builder));
    }
    if (elf)
        elf_end(elf);
    close(file);
    unlink(path);
    builder_free(builder);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    if (!mkdtemp(folder))
        abort();
    snprintf(out_path, sizeof out_path, "%s/out", folder);
    setenv("TMPDIR", folder, 1);
    vt_undo_out_of_memory(abort); /* instead of an exit that leaves no input behind */
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes > 4 && !memcmp(data, ELFMAG, SELFMAG))
        read_library(data, bytes);
    else if (bytes > 1)
        read_records(data, bytes);
    return 0;
}
