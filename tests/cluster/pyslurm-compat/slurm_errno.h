/* As slurm.h beside this: a code that 26.05 no longer has. */
#include "/usr/include/slurm/slurm_errno.h"

#ifndef ESLURM_ERROR_ON_DESC_TO_RECORD_COPY
#define ESLURM_ERROR_ON_DESC_TO_RECORD_COPY (-1)
#endif
