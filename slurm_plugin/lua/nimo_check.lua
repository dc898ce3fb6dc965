--- What is wrong with an answer of nimod: whatever it says, a job stays within its request.
--
-- Lua 5.1 to 5.4.

local shared, memory = require("nimo_shared"), require("nimo_memory")
local sizes = require("nimo_sizes")

local M = {}

local NO_VAL = { [4294967294] = true, [4294967295] = true }
local MESSAGE_BYTES = 4096
--- Numbers of a change.
M.FIELDS = {
  "min_nodes", "max_nodes", "num_tasks", "ntasks_per_node", "cpus_per_task", "min_cpus",
  "time_limit", "time_min",
}
--- Texts of a change that say which place is tried first.
M.PLACES = { "partition", "prefer" }
-- A time_min to plan with, and until when it is one.
local SOFT = { "soft_min", "soft_until" }
local SOFT_S = 60 -- for which nimod's word is good

-- The largest `field` among the partitions that the job names; nil where that is unknown.
local function largest(partitions, names, field)
  local most
  for name in (names or ""):gmatch("[^,]+") do
    local value = partitions and partitions[name] and partitions[name][field]
    if type(value) == "number" and value > (most or 0) then most = value end
  end
  return most
end

local function check_nodes(change, job, partitions)
  local nodes = change.min_nodes
  if change.max_nodes ~= nodes then return "min_nodes is not max_nodes" end
  if not nodes then return nil end
  local most = math.min(
    job.max_nodes or math.huge,
    largest(partitions, job.partition, "total_nodes") or math.huge,
    largest(partitions, job.partition, "max_nodes") or math.huge
  )
  if nodes < (job.min_nodes or 1) or nodes > most then
    return nodes .. " nodes are outside the request"
  end
  if nodes % (job.segment_size or 1) ~= 0 then
    return nodes .. " nodes are no segments of " .. job.segment_size
  end
end

-- Another number of tasks, of CPUs for each or of GPUs: what the job's own tag or the site asks for,
-- on as many nodes, and of batch jobs only, as other commands have computed what depends on it.
local function check_size(change, job, settings)
  if not job.script or change.min_nodes or job.array_inx then return "its size is not chosen" end
  local problem = sizes.fault(change, job, settings)
  if problem then return problem end
  local cpus = (change.num_tasks or job.num_tasks or job.ntasks_per_node or 1)
    * (change.cpus_per_task or job.cpus_per_task or 1)
  if change.min_cpus and change.min_cpus > cpus * math.max(job.min_nodes or 1, 1) then
    return "min_cpus does not fit the size"
  end
end

-- More nodes than tasks end slurmctld 22.05 (division by zero) as soon as srun makes a step, and
-- SLURM_NTASKS of salloc and srun is out of reach: their clients have computed it already.
local function check_tasks(change, job, settings)
  local nodes, tasks, per_node = change.min_nodes, change.num_tasks, job.ntasks_per_node
  if sizes.resized(change) then return check_size(change, job, settings) end
  if not nodes or not job.num_tasks then
    return tasks and "num_tasks without need" or nil
  elseif tasks then
    if not job.script then return "num_tasks of an interactive job" end
    return tasks ~= nodes * (per_node or 0) and "num_tasks does not fit the nodes" or nil
  elseif nodes > job.num_tasks or job.num_tasks > nodes * (per_node or job.num_tasks) then
    return job.num_tasks .. " tasks do not fit " .. nodes .. " nodes"
  end
end

local function check_cpus(change, job)
  local nodes, cpus = change.min_nodes, change.min_cpus
  if not cpus or sizes.resized(change) then return nil end
  local enough = (nodes or 0) * (job.ntasks_per_node or 1) * (job.cpus_per_task or 1)
  if not nodes or cpus < nodes or cpus > math.max(enough, job.min_cpus or 0) then
    return "min_cpus does not fit the nodes"
  end
end

-- What a job without a limit of its own gets, where it names one partition.
local function default_limit(partitions, name)
  local partition = partitions and partitions[name] or {}
  local limit = partition.default_time
  if type(limit) ~= "number" or NO_VAL[limit] then limit = partition.max_time end
  return type(limit) == "number" and limit or nil
end

-- The least that a limit may be shortened to: a share of the user's own.
local function least(own, settings) return own and own * settings.least_limit_share or 0 end

-- A limit is raised only together with another size: fewer nodes need longer.
local function check_limit(change, job, partitions, settings)
  local limit, sized = change.time_limit, change.min_nodes or sizes.resized(change)
  if not limit then return nil end
  local own = job.time_limit or default_limit(partitions, job.partition)
  local most = largest(partitions, job.partition, "max_time") or own
  local raised = own and limit > own
  if not own or limit < (job.time_min or 1) or limit < least(own, settings)
    or raised and not (job.time_limit and sized and limit <= most) then
    return "time_limit " .. limit .. " is not allowed"
  end
end

-- slurmctld refuses a time_min beyond the limit, and a user's own stays.
local function check_time_min(change, job, partitions, settings)
  local minutes = change.time_min
  if not minutes then return nil end
  local limit = change.time_limit or job.time_limit
  local own = job.time_limit or default_limit(partitions, job.partition)
  if job.time_min or not limit or minutes > limit or minutes < least(own, settings) then
    return "time_min " .. minutes .. " is not allowed"
  end
end

-- Without the option of slurm.conf time_min ends jobs: nimod has to have seen it just now.
local function check_soft(change, job, settings)
  local minutes, own, now = change.soft_min, job.time_limit, os.time()
  if not minutes then return nil end
  local left = (change.soft_until or 0) - now
  if left < 0 or left > SOFT_S or not own or job.time_min or change.time_limit or change.time_min
    or minutes > own or minutes < least(own, settings) then
    return "soft_min " .. minutes .. " is not allowed"
  end
end

local function sorted(names)
  local list = {}
  for name in names:gmatch("[^,]+") do list[#list + 1] = name end
  table.sort(list)
  return table.concat(list, ",")
end

-- The user's own partitions in another order, or one of the alternatives of the user's constraint.
local function check_place(change, job)
  local names, prefer = change.partition, change.prefer
  if names and sorted(names) ~= sorted(job.partition or "") then
    return "its partitions are others"
  end
  if not prefer then return nil end
  local own = "|" .. (job.features or "") .. "|"
  if job.prefer or prefer:find("|", 1, true) or not own:find("|" .. prefer .. "|", 1, true) then
    return "its features are others"
  end
end

local function check_text(answer, field, most_bytes)
  local text = answer[field]
  if text ~= nil and (type(text) ~= "string" or #text > most_bytes) then return "bad " .. field end
end

local function check_change(change, job, partitions, settings, environment)
  local numbers = shared.joined(shared.joined(M.FIELDS, SOFT), memory.FIELDS)
  return shared.malformed(change, numbers, shared.joined(sizes.DEVICES, M.PLACES))
    or check_nodes(change, job, partitions) or check_tasks(change, job, settings)
    or check_cpus(change, job) or check_limit(change, job, partitions, settings)
    or check_time_min(change, job, partitions, settings) or check_place(change, job)
    or check_soft(change, job, settings)
    or memory.fault(change, job, partitions, settings, environment or {})
end

--- What is wrong with an answer to `job`; nil when it may be carried out.
-- @param environment of the job
function M.fault(answer, job, partitions, settings, environment)
  if answer.v ~= shared.VERSION then return "version " .. tostring(answer.v) end
  if answer.ok == false then return "refused: " .. tostring(answer.error) end
  local action = answer.action or "keep"
  if action ~= "keep" and action ~= "set" and action ~= "refuse" then return "bad action" end
  if action == "refuse" and not settings.allow_refusal then
    return "it refuses the job, and allow_refusal is off in nimo_hook.conf"
  end
  local text = check_text(answer, "message", MESSAGE_BYTES)
    or check_text(answer, "admin_comment", shared.MAX_COMMENT_BYTES)
  return text or (action == "set" and check_change(answer.set, job, partitions, settings, environment))
    or nil
end

return M
