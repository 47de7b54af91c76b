/* A copy of a library for us alone: the host's own use of that library neither sees it nor shares its state.
 *
 * A library that keeps descriptors, used from a thread with descriptors of its own, must not be the host's:
 * the host would use our numbers in its own table. So the file is copied to memory without its name
 * (DT_SONAME), by which the loader would hand it out again, and without what would run at exit while our
 * thread may be in it (DT_FINI). */
#ifndef VT_PRIVATE_COPY_H
#define VT_PRIVATE_COPY_H

/* Loads a copy of the file; NULL if it cannot be. Never unloaded. Takes the loader's lock and calls malloc:
 * for a thread of ours that has descriptors of its own (vt_part_from_descriptors). */
void *vt_load_private_copy(const char *path);

#endif
