--- Memory that nimod takes off a job: what may be written, and what the job's environment says.
--
-- Lua 5.1 to 5.4.

local M = {}

--- Written after all else: what was not set before cannot be taken back.
M.FIELDS = { "min_mem_per_node", "min_mem_per_cpu" }

-- Memory of each node that a job without one of its own gets; nil where that is unknown.
local function default_memory(partitions, name)
  local partition = partitions and partitions[name] or {}
  local memory = partition.def_mem_per_node
  return type(memory) == "number" and memory > 0 and memory < 2 ^ 63 and memory or nil
end

-- What an enclosing job says of memory in other words: srun takes only one of them.
local function other_words(environment, of_node)
  for _, name in ipairs({ "SLURM_MEM_PER_GPU", of_node and "SLURM_MEM_PER_CPU" or "SLURM_MEM_PER_NODE" }) do
    if environment[name] then return name .. " is there" end
  end
end

--- Why a change of memory is not to be written; nil: it is, or there is none.
-- Memory is only ever lowered, of batch jobs, in the words that the job has.
function M.fault(change, job, partitions, settings, environment)
  local node, cpu = change.min_mem_per_node, change.min_mem_per_cpu
  local value = node or cpu
  if not value then return nil end
  local own = node and job.min_mem_per_node or cpu and job.min_mem_per_cpu
  local elsewhere = node and (cpu or job.min_mem_per_cpu) or cpu and not job.min_mem_per_cpu
  if not job.script or job.mem_per_tres or elsewhere or own == 0 then
    return "its memory is not chosen"
  end
  local before = own or default_memory(partitions, job.partition)
  -- Of a job that gets all of a node's memory, or some for each CPU, only nimod has the amount.
  local least = before and before * settings.least_memory_share or settings.least_memory_mib
  if value < least or before and value >= before then
    return "memory of " .. value .. " MiB is not allowed"
  end
  return other_words(environment, node)
end

--- Writes to the environment, where it says what the job asked for (or one around it has).
function M.variables(job_desc, change)
  local environment, writes = job_desc.environment, {}
  local names = {
    SLURM_MEM_PER_NODE = change.min_mem_per_node, SLURM_MEM_PER_CPU = change.min_mem_per_cpu,
  }
  for name, value in pairs(names) do
    if environment and environment[name] then
      writes[#writes + 1] = { at = environment, key = name, value = ("%d"):format(value) }
    end
  end
  return writes
end

return M
