/* How this process takes memory from the system. */
#ifndef VT_HEAP_H
#define VT_HEAP_H

/* Takes it in large pieces and keeps it: arrays of millions of items come and go, and each first touch of a
 * page costs more than the work on it. Call once, before threads. */
void vt_heap_prepare(void);

#endif
