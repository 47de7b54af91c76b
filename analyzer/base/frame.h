/* A frame of a stack, resolved to names. */
#ifndef VT_FRAME_H
#define VT_FRAME_H

#include <stdint.h>

enum vt_frame_kind { VT_FRAME_NATIVE, VT_FRAME_PYTHON };

/* Strings are never NULL and live as long as the trace. */
struct vt_frame {
    enum vt_frame_kind kind;
    const char *function;      /* shortened for people; of native code without a symbol "0x…" */
    const char *full_function; /* native: demangled with arguments and templates; Python: same as function */
    const char *file;          /* "" = not known */
    int32_t line;              /* 0 = not known, never negative */
    const char *module;        /* native: path of the object; Python: "" */
    uint64_t address;          /* native: return address; Python: address of `self`, 0 = none */
};

#endif
