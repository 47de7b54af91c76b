/* Private to commands: programs of python/vramtrace that this program contains, for work whose library exists
 * only in Python. They run with VRAMTRACE_PYTHON, else python3 (in a wheel, the one beside this program). */
#ifndef VT_COMMAND_PYTHON_H
#define VT_COMMAND_PYTHON_H

enum vt_python_program { VT_PYTHON_PARQUET, VT_PYTHON_MEMORY_VIZ, VT_PYTHON_MCP };

/* Runs it with `arguments`; the first two are set here, and NULL ends them. 0, or VT_EXIT_NOT_WRITTEN or
 * VT_EXIT_OUT_OF_MEMORY with a line on stderr: its own, or how it ended and what it needs. */
int vt_python_run(enum vt_python_program program, const char *arguments[]);
/* Becomes it. Returns if it cannot: VT_EXIT_WRONG_USE with a line on stderr. */
int vt_python_become(enum vt_python_program program, const char *arguments[]);

#endif
