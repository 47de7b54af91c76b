/* A private copy of a library: the host's own use of that library neither sees it nor shares its state.
 *
 * A library that keeps descriptors open, called from a thread with its own descriptor table, must not be
 * shared with the host: the host would use our numbers in its own table. So the file is copied to memory
 * without its name (DT_SONAME), by which the loader would find it again, and without the functions that
 * would run at exit while our thread may be inside it (DT_FINI). */
#ifndef VT_PRIVATE_COPY_H
#define VT_PRIVATE_COPY_H

/* Loads a copy of the file; NULL if that fails. Never unloaded. Takes the loader's lock and calls malloc, so
 * it must run in a thread of ours that has its own descriptors (vt_part_from_descriptors). */
void *vt_load_private_copy(const char *path);

#endif
