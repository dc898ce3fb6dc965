/* Lets PySlurm 25.11 compile against Slurm 26.05, where functions that took a job id take a step id
 * and one function has another name.  For tests: nobody supports this pair. */
#include "/usr/include/slurm/slurm.h"

#ifndef NIMO_STEP_OF
#define NIMO_STEP_OF(job) \
	((slurm_step_id_t){ .job_id = (job), .step_id = NO_VAL, .step_het_comp = NO_VAL })

#define slurm_free_ctl_conf(conf) slurm_free_conf(conf)
#define slurm_get_end_time(job, end) (slurm_get_end_time)(NIMO_STEP_OF(job), end)
#define slurm_get_rem_time(job) (slurm_get_rem_time)(NIMO_STEP_OF(job))
#define slurm_job_node_ready(job) (slurm_job_node_ready)(NIMO_STEP_OF(job))
#define slurm_kill_job(job, number, flags) (slurm_kill_job)(NIMO_STEP_OF(job), number, flags)
#define slurm_load_job(found, job, flags) (slurm_load_job)(found, NIMO_STEP_OF(job), flags)
#define slurm_notify_job(job, text) (slurm_notify_job)(NIMO_STEP_OF(job), text)
#define slurm_requeue(job, flags) (slurm_requeue)(NIMO_STEP_OF(job), flags)
#define slurm_resume(job) (slurm_resume)(NIMO_STEP_OF(job))
#define slurm_suspend(job) (slurm_suspend)(NIMO_STEP_OF(job))
#define slurm_pid2jobid(pid, job) \
	({ \
		slurm_step_id_t found = NIMO_STEP_OF(0); \
		int status = (slurm_pid2jobid)(pid, &found); \
		*(job) = found.job_id; \
		status; \
	})
#endif
