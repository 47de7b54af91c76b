/* Words of a job. */
#include "report/job.h"

const char *vt_job_layout_name(unsigned layout)
{
    static const char *const names[VT_LAYOUTS] = {
        "unknown", "single", "data_parallel", "sharded_data_parallel", "tensor_parallel", "pipeline"};

    return layout < VT_LAYOUTS ? names[layout] : "?";
}
