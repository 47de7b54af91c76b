/* What a framework's cache has free when memory runs out. */
#ifndef VT_FINDINGS_CAUSES_CACHE_H
#define VT_FINDINGS_CAUSES_CACHE_H

struct vt_cause_search;

/* The request would fit into free memory of another stream. */
void vt_cause_streams(struct vt_cause_search *search);
/* Enough is free, but in pieces. */
void vt_cause_fragmentation(struct vt_cause_search *search);

#endif
