/* The trace file (.vrt): what libvramtrace.so writes and the analyzer reads. ring.h: what else they share.
 *
 *     offset 0        struct vt_file_header, padded to VT_HEADER_BYTES
 *     chunks_offset   chunks, one after the other, up to header.chunks_end or further; some are digests (digests.h)
 *
 * Everything is little-endian and naturally aligned. A process's records go through its ring (ring.h) in one global order; a
 * writer thread moves them from there to compressed chunks within 100 ms. Only that thread writes the trace, and only by
 * calls: it is never mapped. The writer appends a chunk, rewrites the header, zeroes the ring's slots, then raises
 * ring_consumed. A chunk has the ring position that follows it, so no kill in between loses or doubles a record: while the
 * state is VT_STATE_RECORDING, whole chunks beyond header.chunks_end, with rising positions, count too.
 *
 * Untrusted input: a reader checks every length here against what it has. */
#ifndef VRAMTRACE_FORMAT_H
#define VRAMTRACE_FORMAT_H

#include <stdint.h>

#define VT_MAGIC "VRAMTRC\n"
#define VT_STEP_MARK "vramtrace.step"
#define VT_FORMAT_VERSION 3u
#define VT_FORMAT_MINIMUM_READABLE 3u /* the oldest reader version that can read a file written now */
#define VT_HEADER_BYTES 4096u
#define VT_RING_PATH_BYTES 256u
#define VT_SLOT_BYTES 64u
#define VT_MAX_DEVICES 32u
#define VT_CHUNK_MAGIC 0x33435456u /* "VTC3" */
#define VT_CHUNK_EVENTS 65536u    /* at most so many in a chunk */
#define VT_CHAIN_EVENTS 131072u    /* in a chain, about: it ends where few blocks are alive */
#define VT_EVENTS_PER_BYTE 8u      /* at most so many per byte of coded events */
#define VT_DEFINITIONS_WINDOW 19u  /* binary logarithm of zstd's window */

enum vt_file_state {
    VT_STATE_RECORDING = 1, /* if on disk: the process was killed, or is still running; the ring may have more */
    VT_STATE_COMPLETE = 2,  /* the process ended and everything it committed is in chunks */
    VT_STATE_STOPPED = 3,   /* recording stopped before the process ended; stop_reason says why */
    VT_STATE_KILLED = 4,    /* the process was killed, and its ring is now in chunks */
    VT_STATE_SNAPSHOT = 5,  /* a copy made while the process ran */
};

/* Running totals for `vramtrace top`, the last line, and checks. Bytes; written with relaxed atomics. */
struct vt_live_device {
    uint64_t driver_bytes; /* of live driver allocations (without contexts) */
    uint64_t driver_peak_bytes;
    uint64_t block_bytes; /* of live framework blocks */
    uint64_t block_peak_bytes;
};

/* Written with relaxed atomics, in the ring; the trace has a copy as of the latest chunk. */
struct vt_counters {
    uint64_t events;  /* in chunks */
    uint64_t dropped; /* events lost because the ring was full */
    uint64_t dropped_definitions; /* stacks, names and the like lost for the same reason */
    uint64_t python_unsupported_minor; /* 0, or the CPython minor version whose frames are not recorded */
    struct vt_live_device live[VT_MAX_DEVICES];
    uint64_t after_end;     /* events after recording had ended or stopped */
    uint64_t without_stack; /* events without a stack, because there were too many different ones before */
    uint64_t python_free_threaded; /* 1: a free-threaded CPython, whose objects are not inspected */
};

/* Identifies a process among all others; 0 = not known. */
struct vt_process_identity {
    uint8_t boot_id[16]; /* the kernel's boot id of the machine */
    uint64_t start_ticks; /* field 22 of /proc/PID/stat */
    uint64_t pid_namespace, mount_namespace; /* inode numbers of /proc/PID/ns/pid and mnt; 0 = not known. In the upper
                                                half of the second, that of /proc/PID/ns/time */
    uint32_t pid, user_id;
};

struct vt_file_header {
    char magic[8];
    uint32_t format_version;
    uint32_t minimum_readable;
    uint32_t header_bytes; /* VT_HEADER_BYTES */
    uint32_t slot_bytes;   /* VT_SLOT_BYTES */
    uint64_t unused_1;
    uint64_t ring_slots; /* a power of two */
    uint64_t chunks_offset;
    uint64_t feature_bits; /* enum vt_feature; a reader refuses bits it does not know in the low half */

    uint32_t pid;
    uint32_t parent_pid;
    uint64_t start_realtime_ns;  /* CLOCK_REALTIME when recording began */
    uint64_t start_monotonic_ns; /* the event clock (CLOCK_MONOTONIC) at the same moment */
    char host[64];
    char program_version[32];

    /* Changes while recording. */
    uint32_t state;       /* enum vt_file_state */
    uint32_t stop_reason; /* enum vt_stop_reason */
    uint64_t end_monotonic_ns;
    uint64_t native_walks_cut; /* because libunwind had not been asked for a rule yet (-Dunwinder=libunwind) */
    uint64_t ring_consumed; /* the ring position after the chunks up to chunks_end */
    uint64_t chunks_end;    /* file offset past the last whole chunk, or past an earlier one */
    struct vt_counters counters;

    uint64_t unfinished_records; /* of a killed process (VT_STATE_KILLED): records reserved but never committed */
    struct vt_process_identity process;
    uint8_t identity[16]; /* random; the ring has the same */
    char ring_path[VT_RING_PATH_BYTES]; /* absolute; "" = private memory, lost with the process */
    uint64_t moves; /* how often the chunks moved to another region of the file: a reader that notices starts over */
    /* Written by `vramtrace run` when the process is gone: the signal that killed it, and VT_END_FROM_KEYBOARD; 0 =
     * none, or not known. */
    uint32_t end_signal;
    uint32_t reserved;
};
#define VT_END_FROM_KEYBOARD 0x100u /* Ctrl-C */

enum vt_feature {
    VT_FEATURE_EVENT_THREADS = 1, /* each event has its thread: always set */
    VT_FEATURE_FLIGHT = 2,        /* chains may be missing, of which there are digests */
};

enum vt_stop_reason {
    VT_STOP_NONE = 0,
    VT_STOP_DISK_FULL = 1,
    VT_STOP_WRITE_ERROR = 2,
    VT_STOP_NO_MEMORY = 3,
    VT_STOP_NO_THREAD = 4,
    VT_STOP_LIMIT = 5, /* VRAMTRACE_LIMIT */
};

/* Chunks form chains. A chunk's contents are packed using those of the earlier chunks in its chain, so that chunks may
 * be small: a reader must take a chain from its start, and if one of its chunks is lost, so are those after it. Chains
 * do not depend on each other.
 *
 * After its header a chunk has stored_bytes:
 *
 * 1. packed_definitions_bytes of a zstd stream (one frame for each chain, flushed at the end of each chunk, window at
 * most 1 << VT_DEFINITIONS_WINDOW): unpacked, definitions_bytes of definition records as they were in the ring (head,
 * body, padded to 8 bytes);
 *
 * 2. the rest: its events, coded as below, with at least one byte for each VT_EVENTS_PER_BYTE of them (a writer adds
 * zeros in the middle), so that a reader can bound the memory that a file can ask for. */
struct vt_chunk_header {
    uint32_t magic; /* VT_CHUNK_MAGIC */
    uint32_t header_bytes;
    uint32_t stored_bytes;
    uint32_t packed_definitions_bytes;
    uint32_t definitions_bytes;
    uint32_t events;
    uint64_t ring_position; /* in slots; the first position not in this or an earlier chunk */
    uint64_t checksum; /* XXH3-64 of the stored bytes, seeded with that of this header, its own checksum being 0 */
    uint64_t chain;    /* the ring position where it begins; a chain without events shares it with the next one */
    uint32_t place;    /* in the chain, from 0 */
    uint32_t level;    /* 0: events as recorded; else a digest */
};

/* Events of a chain. Times are in ticks of 256 ns, rounded down; everything else is exact. Writer and reader predict each event
 * from those before it, and only what differs costs more than a fraction of a bit. Both use the same code, that of format/,
 * which is the definition of this format; in outline:
 *
 * Bits (format/coder.h). Two streams share the bytes. From the start, a range coder of binary decisions; from the end, backwards,
 * plain bits that nothing predicts, the lowest first. Past the end of a stream there are zeros. Each chunk starts both streams
 * again; what was learned stays for the whole chain. The range has 64 bits, is 2^64 - 1 at first, and is shifted by 32 bits
 * whenever it is below 2^32. Each decision has a chance of 22 bits, one half at first, and a count. A 1 is the lower
 * (range / 2^12) * (chance / 2^10) of the range; then the chance moves by 1 / (count + 1.5) of the way to 1 - 2^-12 for a 1 or to
 * 2^-12 for a 0, and the count rises, up to 60.
 * A *tree* is a number of fixed length, the highest bit first, with a chance for each prefix. A *number* is a tree of 7 bits for
 * its length, then the bits below the highest one, plain. A *difference* is a number of zigzag(value).
 *
 * A chain's first chunk begins with the allocator's segments and holes so far (format/holes.c: three lists of ranges, each range
 * as a number for the gap before it, one for its length, and its pool), since those from earlier chains still matter.
 *
 * An event, in this order:
 *   - one bit: 1 if everything but the time is as predicted. The prediction: each thread follows an earlier sequence of its own
 *     events, which its latest events repeat, and the event after those is expected to come again. If the thread has lost its
 *     place, it searches by the hash of its latest eleven, then of its latest four events. From the event that is followed,
 *     stack, kind, layer, device and flags are repeated, and
 *       a framework's alloc: the size last used in the place of that event's size; the address of the smallest hole, or the
 *       whole hole if PyTorch would not split it; a free: the block last made at the place where that event's block was made;
 *       both: the allocator's allocated bytes change by the event's bytes, its reserved bytes stay;
 *       sequence: changes by as much as it did there, or is 0; all other fields: as there, total_bytes 0.
 *   - if it is 0: the thread (a tree of 4 bits: an index into a table of the latest 15, or the number of a new one). Then one bit:
 *     stack, kind, layer, device and flags as predicted. If not, the stack id (1 bit: the highest so far + 1; else a difference to
 *     that) and those four bytes (1 bit: as this stack had them last; else four trees). Then bytes, address, detail, total_bytes
 *     and sequence, each as one bit for "as predicted", else a difference to the latest event of that kind, or for events of
 *     blocks to the prediction. A free has its address first; an unexpected one is a number, how many events ago the block was
 *     made, or 0 and a difference.
 *   - the ticks since the last event: their length in bits, as steps up or down from what this stack took lately, then the bits
 *     below the highest. */

/* The first 8 bytes of every record, in the ring and in a chunk's definitions. */
struct vt_record_head {
    uint16_t slots; /* in the ring; never 0 once reserved */
    uint8_t kind;   /* enum vt_record_kind */
    uint8_t committed;
    uint32_t bytes; /* head and body, without padding; for an event, which is always one slot, its thread instead */
};

enum vt_record_kind {
    VT_RECORD_PAD = 1,
    VT_RECORD_EVENT = 2,
    /* definitions: */
    VT_RECORD_PROCESS = 16,     /* struct vt_process, then strings */
    VT_RECORD_STRING = 17,      /* struct vt_string, then text */
    VT_RECORD_THREAD = 18,      /* struct vt_string: id = the kernel's thread id, text = its name */
    VT_RECORD_DEVICE = 19,      /* struct vt_device, then name */
    VT_RECORD_STACK = 20,       /* struct vt_stack, then frames */
    VT_RECORD_CODE = 21,        /* struct vt_code, then strings and the line table */
    VT_RECORD_SYMBOL = 22,      /* struct vt_symbol, then name */
    VT_RECORD_MODULE = 23,      /* struct vt_module, then build id and path */
    VT_RECORD_FUNCTION = 24,    /* struct vt_string: id = function of events, text = its name */
    VT_RECORD_INSPECTION = 25,  /* struct vt_inspection_part, then text */
    VT_RECORD_LAUNCH = 26,      /* struct vt_record_head, then the launcher's variables */
    VT_RECORD_DEVICE_UUID = 27, /* struct vt_device_uuid */
    VT_RECORD_GPU_USE = 28,     /* struct vt_gpu_use, then processes and their commands */
    VT_RECORD_PLACE = 29,       /* struct vt_place_record (places.h) */
};
enum vt_layer { VT_LAYER_NONE = 0, VT_LAYER_DRIVER = 1, VT_LAYER_RUNTIME = 2, VT_LAYER_FRAMEWORK = 3 };

/* What the fields of an event mean, by kind. A field that is not named is 0. `address` keys an allocation among those of its
 * layer and kind. */
enum vt_event_kind {
    VT_EVENT_NONE = 0,
    VT_EVENT_ALLOC = 1,       /* address, bytes. Driver: detail = the pool (VT_FLAG_ASYNC), or the external memory that is
                                 mapped, else the current context, which owns it; 0 = not known.
                                 VT_FLAG_FOREIGN: total_bytes = identity as in VT_EVENT_EXPORT, 0 = not known.
                                 Framework: detail = reserved bytes and total_bytes = allocated bytes after it, by the
                                 allocator's own count; if it does not count, detail = 0 and total_bytes is our count */
    VT_EVENT_FREE = 2,        /* address, bytes if known (framework), detail and total_bytes as for alloc */
    VT_EVENT_FREE_FAILED = 3, /* address: the last thing that this thread gave back, by whichever kind of event, was not
                                 taken back; that event has the same address, and had no effect */
    VT_EVENT_HANDLE_CREATE = 4,  /* address = handle of physical memory, bytes; total_bytes as for alloc */
    VT_EVENT_HANDLE_RETAIN = 5,  /* address = handle: one more reference */
    VT_EVENT_HANDLE_RELEASE = 6, /* address = handle: one reference less */
    VT_EVENT_MAP = 7,            /* address, bytes, detail = handle, total_bytes = offset in the handle; bytes 0: into a
                                    sparse array; address identifies the place in it, also in UNMAP */
    VT_EVENT_UNMAP = 8,          /* address, bytes */
    VT_EVENT_RESERVE = 9,        /* address, bytes: address space only */
    VT_EVENT_UNRESERVE = 10,     /* address, bytes */
    VT_EVENT_POOL = 11,          /* address = pool, total_bytes = reserved bytes, detail = used bytes now.
                                    VT_FLAG_CAPTURED: the device's pool of graphs' own memory, address = its index + 1 */
    VT_EVENT_POOL_DESTROY = 12,  /* address = pool */
    VT_EVENT_MEMORY_INFO = 13,   /* bytes = free on the device, total_bytes = its size; the whole GPU, all processes */
    VT_EVENT_DELTA = 14,         /* bytes = signed change of the device's used memory across one call of
                                    `function` that is not an allocation (module load, limit, graph upload); detail =
                                    the current context, which owns the memory; 0 = not known */
    VT_EVENT_CONTEXT_CREATE = 15,  /* address = context, bytes = the memory that it took, if it is not the process's first;
                                      0 = not known: a first context cannot be told from other processes' memory */
    VT_EVENT_CONTEXT_DESTROY = 16, /* address = context; frees what it owned, and those bytes */
    VT_EVENT_OOM = 17,             /* bytes = asked; framework: detail, total_bytes as for alloc */
    VT_EVENT_ALLOC_FAILED = 18,    /* driver or runtime: bytes = asked, detail = error number */
    VT_EVENT_MARK = 19,            /* detail = string id; VT_STEP_MARK: a boundary between training steps. In a digest:
                                      total_bytes = how many events came before it of those that the digest is of */
    VT_EVENT_RANGE_PUSH = 20,      /* detail = string id */
    VT_EVENT_RANGE_POP = 21,
    VT_EVENT_INSPECTION = 22, /* end of an inspection: detail = its id (VT_RECORD_INSPECTION) */
    VT_EVENT_NODE = 23, /* sequence: an autograd node was made on this stack, and nothing was allocated for it.
                           If made in a backward pass: detail = sequence of the running node */
    /* Multicast objects: windows onto memory of several devices. They have handles like physical memory
     * (retained, released, mapped and imported by the same events), but no memory. Physical memory stays alive as
     * long as it is bound, on its own device. A binding ends with its object at the latest. */
    VT_EVENT_MULTICAST_CREATE = 24, /* address = handle of the object, bytes = its size */
    VT_EVENT_BIND = 25,             /* address = object, bytes, detail = handle of physical memory, total_bytes = offset
                                       in the object; device_index -1: that of the memory */
    VT_EVENT_BIND_ADDRESS = 26,     /* the same, detail = address where the memory is mapped, or of a pool's memory */
    VT_EVENT_UNBIND = 27,           /* address = object, bytes, total_bytes = offset in it, device_index */
    VT_EVENT_CAPTURE = 28,       /* address = stream that begins to capture a graph */
    VT_EVENT_CAPTURE_END = 29,   /* address = stream, detail = the graph, 0 = none */
    VT_EVENT_GRAPH = 30,         /* address = executable graph, detail = the graph that it was made from */
    VT_EVENT_GRAPH_LAUNCH = 31,  /* address = executable graph */
    VT_EVENT_GRAPH_DESTROY = 32, /* address = executable graph */
    VT_EVENT_PAUSE = 33,  /* from here on events have no stacks, and objects are inspected only on request; bytes are
                             counted as before */
    VT_EVENT_RESUME = 34, /* the pause ends */
    /* Of a digest: left out between these two are blocks that were both made and freed there, the framework's own
     * counts, graph launches, nodes, closed ranges, and some of the marks, failed requests and passes if there are many. */
    VT_EVENT_GAP_BEGIN = 35,
    VT_EVENT_GAP_END = 36, /* detail = events that were left out, bytes = allocations among them, total_bytes = their
                              bytes, sequence = backward passes there, of which only some are shown */
    VT_EVENT_EXPORT = 38,  /* address of memory, or handle, that is shared with other processes; bytes = of the whole
                              allocation, 0 = not known; detail = identity, the same in every process that has it,
                              from the handle that is passed between them; 0 = not known */
    /* In digests only (digests.h): */
    VT_EVENT_RAN = 37, VT_EVENT_CALL = 39, VT_EVENT_AFTER = 40, VT_EVENT_ZEROED = 41, VT_EVENT_MOST = 42, VT_EVENT_LAST = 43,
};

enum vt_event_flag {
    VT_FLAG_HOST = 1,     /* page-locked host memory, not device memory */
    VT_FLAG_MANAGED = 2,  /* may be on the device or the host */
    VT_FLAG_ASYNC = 4,    /* from a pool: its bytes are part of the pool's reserved bytes */
    VT_FLAG_FOREIGN = 8,  /* another process's or API's memory, mapped here */
    VT_FLAG_REGISTERED = 16, /* the program's own host memory, page-locked */
    VT_FLAG_CAPTURED = 32,   /* a graph's node, no memory yet: made in a stream capture, or by hand (detail = graph) */
    VT_FLAG_ESTIMATE = 64,   /* bytes are computed from a descriptor, not reported by the driver */
    VT_FLAG_COLLECTOR = 128, /* a framework's free: made while Python's garbage collector ran (known from the first
                                inspection on) */
    /* On a framework's alloc, free and oom: the framework has no counter; total_bytes is our sum of its blocks. */
    VT_FLAG_UNCOUNTED = VT_FLAG_REGISTERED,
};

/* One event: one slot of the ring. */
struct vt_event {
    union {
        struct vt_record_head head;
        struct {
            uint32_t head_start;
            uint32_t thread_id; /* the kernel's; in the place of head.bytes */
        };
    };
    uint64_t t_ns; /* CLOCK_MONOTONIC */
    uint64_t address;
    uint64_t bytes;
    uint64_t detail;
    uint64_t total_bytes;
    uint64_t sequence; /* autograd: 0 none; 1 in backward, number not known (as of all nodes that accumulate gradients);
                          else node number * 2 + (1 in backward) + 2, and in the upper bits PyTorch's number of the
                          thread that made the node, since each thread counts its own nodes */
    uint32_t stack_id; /* 0 = none recorded */
    uint8_t kind;      /* enum vt_event_kind */
    uint8_t layer;     /* enum vt_layer */
    int8_t device_index; /* -1 = none or unknown */
    uint8_t flags;     /* enum vt_event_flag */
};
enum { VT_SEQUENCE_NO_NUMBER = 1, VT_SEQUENCE_THREAD_SHIFT = 48 };
/* The hooked function is in struct vt_stack, which differs by function anyway: here it would not fit. */

_Static_assert(sizeof(struct vt_event) == VT_SLOT_BYTES, "an event is one slot");
_Static_assert(sizeof(struct vt_file_header) <= VT_HEADER_BYTES, "the header fits");

struct vt_process {
    struct vt_record_head head;
    uint32_t argument_count;
    uint32_t python_version; /* hex, as PY_VERSION_HEX; 0 where there is no Python */
    /* argument_count arguments, then the working folder, then the executable's path; each NUL-terminated */
};

/* Environment variables that job launchers (torchrun, Slurm, MPI, Ray …) had set when the library was loaded:
 * "NAME=value", each NUL-terminated; only the names in preload/launch.def. The reader decides what they mean. */

struct vt_string { /* VT_RECORD_STRING, VT_RECORD_FUNCTION, VT_RECORD_THREAD */
    struct vt_record_head head;
    uint64_t id;
    /* text to the end of the record, without a NUL */
};

struct vt_device {
    struct vt_record_head head;
    uint32_t device_index;
    uint32_t reserved;
    uint64_t total_bytes;
    /* name to the end of the record */
};

/* Identifies a GPU, or its MIG instance, among all others, whatever index a process knows it by. */
struct vt_device_uuid {
    struct vt_record_head head;
    uint32_t device_index;
    uint32_t reserved;
    uint8_t uuid[16];
};

/* What NVML reported about a GPU, for all processes, at some time between begin_ns and end_ns (the event clock). Only
 * where there is an NVML; a reader may skip it. Bytes; UINT64_MAX = not reported. */
struct vt_gpu_use {
    struct vt_record_head head;
    uint32_t device_index;
    uint32_t process_count; /* that follow */
    uint64_t begin_ns, end_ns;
    uint64_t total_bytes;
    uint64_t used_bytes;     /* without reserved_bytes if those are reported, else including them */
    uint64_t reserved_bytes; /* for the driver itself; not available to processes */
    uint32_t own;            /* the recording process's place among the processes; UINT32_MAX = not known */
    uint32_t flags;          /* enum vt_gpu_use_flag */
    /* process_count struct vt_gpu_process, the largest first; then the command of each, NUL-terminated */
};
enum vt_gpu_use_flag {
    VT_GPU_PROCESSES = 1,     /* the list of processes was reported; else nothing is known about them */
    VT_GPU_PROCESSES_CUT = 2, /* there were more */
    VT_GPU_UNSTEADY = 4,      /* the used bytes changed each time while the list was read */
    VT_GPU_NESTED = 8, /* the process may be in its own pid namespace: the list may lack processes outside,
                           or have pids as counted there */
};
struct vt_gpu_process {
    uint32_t pid; /* as the driver reports it; in a container perhaps that of another namespace */
    uint32_t reserved;
    uint64_t bytes; /* on the GPU, context included */
};

#define VT_ADDRESS_BITS 48 /* of code; above them, the number of the latest unload of a library there */
#define VT_ADDRESS_MASK ((UINT64_C(1) << VT_ADDRESS_BITS) - 1)

/* A stack, innermost frame first: native frames up to the interpreter, then Python frames. */
struct vt_stack {
    struct vt_record_head head;
    uint32_t stack_id;  /* from 1 */
    uint32_t place_id;  /* VT_RECORD_PLACE of the blocks that this stack makes; 0 = not known */
    uint16_t function;  /* VT_RECORD_FUNCTION id of the hooked function, 0 = none */
    uint16_t label;     /* function id of the runtime call around it (cudaMalloc …), 0 = none */
    uint16_t native_frames;
    uint16_t python_frames;
    uint32_t flags; /* enum vt_stack_flag */
    uint32_t reserved; /* 0 */
    /* native_frames * uint64_t return addresses; python_frames * struct vt_python_frame */
};

enum vt_stack_flag {
    VT_STACK_NATIVE_TRUNCATED = 1,
    VT_STACK_PYTHON_TRUNCATED = 2,
    VT_STACK_PYTHON_UNREADABLE = 4, /* the walk stopped at an invalid frame */
};

struct vt_python_frame {
    uint32_t code_id;            /* VT_RECORD_CODE */
    int32_t instruction_offset;  /* bytes into the code (f_lasti in bytes); -1 before the first instruction */
    uint64_t self_address;       /* of the nn.Module or optimizer that runs in this frame, 0 = none */
};

struct vt_code {
    struct vt_record_head head;
    uint32_t code_id; /* from 1 */
    int32_t first_line;
    uint16_t python_minor; /* CPython 3.<minor>: how to read the line table */
    uint16_t reserved;
    uint32_t file_bytes;
    uint32_t name_bytes; /* qualified name where the version has one, else the name */
    uint32_t line_table_bytes;
    /* file, name, line table; no terminators */
};

struct vt_symbol {
    struct vt_record_head head;
    uint64_t address;   /* as in stacks (a return address) */
    uint64_t symbol_address; /* start of the function, 0 = unknown */
    uint64_t module_base;    /* of the VT_RECORD_MODULE, 0 = unknown */
    /* linkage name (mangled) to the end of the record; may be empty */
};

/* The result of one inspection of the host's live Python objects. Its parts, in order, are one text, of lines ended by \n
 * with fields separated by \t. In a field \t, \n, \r and \\ are written \\t, \\n, \\r and \\\\; addresses and numbers
 * are decimal. A reader skips lines with an unknown first field. An empty field means not known.
 *
 *   R root address class holder       a module that no other module holds. root: its number, from 0, the same in
 *                                     all inspections of a process. address: like self_address in stacks. holder: the
 *                                     variable or attribute that holds it ("model", "trainer.model")
 *   M root address class path         every module in the root, including the root itself (path ""): "layers.3.attn".
 *                                     Transparent wrappers' steps (DistributedDataParallel's "module" …) are left out
 *   O optimizer address class holder  optimizer: its number, from 0, like a root's
 *   T role root path data_address bytes storage_address storage_bytes dtype shape device_index optimizer whole
 *                                     a CUDA tensor. role: parameter, buffer, gradient, or optimizer_state:KEY with the path
 *                                     of its parameter, or tensor (purpose not known). root: -1 if no module holds it; path is
 *                                     then a variable's name or "optimizer.param_groups.0.params.3". bytes: of the elements
 *                                     that the tensor shows; storage_bytes: of its whole storage. shape: "64x256", "" for a
 *                                     scalar. optimizer: for optimizer state, else "". whole, which may be missing: if the
 *                                     tensor is a part of a distributed one, the shape of that
 *   A role path …                     an array of JAX, CuPy or Paddle, with the fields of T. path: where the program holds it,
 *                                     written like JAX does, after a variable's name: "opt_state[0].mu['layers'][0]['w']".
 *                                     role: as in T if the class of an object on the path implies it, else "";
 *                                     optimizer_state may be without KEY. An array on several devices has a line per part
 *   H kind holder way data_address bytes storage_address storage_bytes dtype shape device_index node nodes
 *                                     a CUDA tensor or array that a Python name holds. kind: local, global, attribute, cell,
 *                                     traceback, cycle … holder: for people: "list 'history' in __main__, 412 items".
 *                                     way: all steps from the tensor to a name, separated by " < ". node: the autograd node
 *                                     that made it; AccumulateGrad for a leaf that gets a gradient; "" = none. nodes:
 *                                     numbers of the nodes that it keeps alive: "12-40,52-52"
 *   W file line where                 a line of code that torch.compile wrote, and where it comes from: lines of a traceback,
 *                                     innermost last. Valid up to the file's next reported line; each is reported once
 *   C objects ended cycles            a census visited so many objects; ended: 1 = all, 0 = it ran out of time or reached its
 *                                     limit; cycles: 1 = it searched for tensors that no name reaches, too. Else no census
 *   K blocks tokens all free requests longest  a server's pool for keys and values: tokens of each block, of all; at work
 *   D rank size store                 the process's rank in PyTorch's default process group. store: "host:port" of the
 *                                     rendezvous, or a file's path
 *   V name value                      a variable of VT_RECORD_LAUNCH with its present value in Python's os.environ
 *   G young middle old                how often Python's garbage collector has run so far, by generation
 *   P nanoseconds                     CPU time of the inspection
 *   E what                            the inspection, or a part of it, failed; the lines before this one are valid */
struct vt_inspection_part {
    struct vt_record_head head;
    uint32_t inspection_id; /* from 1 */
    uint32_t reason;  /* enum vt_inspection_reason, bits */
    uint32_t part;    /* from 0 */
    uint32_t parts;
    uint64_t duration_ns; /* how long the host has waited for the inspection so far */
    /* text to the end of the record */
};

#define VT_LEAF_NODE "AccumulateGrad" /* the node of a leaf that gets a gradient, in H lines */

enum vt_inspection_reason {
    VT_INSPECTION_NEW_OBJECT = 1, /* a module or optimizer not seen before was called */
    VT_INSPECTION_BACKWARD = 2,   /* a backward pass ended */
    VT_INSPECTION_PEAK = 4,       /* there was a new peak */
    VT_INSPECTION_EXIT = 8,
    VT_INSPECTION_OUT_OF_MEMORY = 16,
    VT_INSPECTION_ASKED = 32, /* by the program (api.h) */
    VT_INSPECTION_TIME = 64,  /* the time since the start has doubled since the last one for this reason */
    VT_INSPECTION_LIBRARY = 128, /* not of Python: a native library has laid out named tensors */
};

struct vt_module {
    struct vt_record_head head;
    uint64_t base; /* load bias */
    uint64_t start_address;
    uint64_t end_address;
    uint32_t build_id_bytes;
    uint32_t path_bytes;
    /* build id, path */
};

#endif
