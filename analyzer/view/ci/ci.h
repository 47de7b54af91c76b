/* Results of check for systems that run tests. */
#ifndef VT_CI_H
#define VT_CI_H

#include <stdio.h>

#include "report/checks.h"

/* A workflow command of GitHub Actions for each breach and each trace that could not be read. */
void vt_ci_github(const struct vt_check_list *list, FILE *out);
/* JUnit's XML: a suite for each trace, a test case for each thing that was measured. */
void vt_ci_junit(const struct vt_check_list *list, FILE *out);

#endif
