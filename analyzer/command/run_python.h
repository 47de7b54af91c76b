/* Finds the Python of a script. */
#ifndef VT_COMMAND_RUN_PYTHON_H
#define VT_COMMAND_RUN_PYTHON_H

/* Puts the interpreter before a script or -m MODULE: it takes the place of the word before, so there must be
 * one. NULL: no Python was found. */
char **vt_run_with_python(char **words);

#endif
