/* Between dlsym_*.S and dlsym.c. */
#ifndef VT_DLSYM_H
#define VT_DLSYM_H

/* Returned in two registers. */
struct vt_dlsym_answer {
    void *real_dlsym; /* not NULL: jump there */
    void *answer;     /* else return this */
};

struct vt_dlsym_answer vt_dlsym_filter(void *handle, const char *name, void *caller);

#endif
