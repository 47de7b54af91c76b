/* The rows of `list`. */
#ifndef VT_JOB_LIST_H
#define VT_JOB_LIST_H

struct vt_job;
struct vt_list;

/* A row for each run of a brief job, the newest first. The job must stay; the caller frees it. */
void vt_list_make(const struct vt_job *job, struct vt_list *list);
void vt_list_free(struct vt_list *list);

#endif
