--- What the two Slurm hooks share: settings, asking nimod, checking and writing its answer.
--
-- The order of a submission is collect, ask, check, write.  Nothing is written to the job before
-- the whole answer has been checked, and a write that fails takes back those before it: on
-- Slurm 22.05 and 24.11 a Lua error would keep half of them, on 26.05 it would refuse the job.
--
-- Lua 5.1 to 5.4; loading this file needs nothing else, so that cli_filter.lua can do without.

local M = {}

M.VERSION = 1 -- of the messages, see slurm_plugin/protocol.py
M.MAX_REQUEST_BYTES = 256 * 1024
M.MAX_COMMENT_BYTES = 1024 -- Slurm refuses jobs with a longer comment
M.COMPLAINT_PAUSE_S = 30

M.DEFAULTS = {
  socket = "/run/nimo/nimod.sock",
  timeout_ms = 20,
  kill_switch = "/etc/nimo/off",
  breaker_failures = 3,
  breaker_s = 30,
  max_script_bytes = 64 * 1024,
  forward_deadline = false,
  rewrite_in_cli_filter = false,
}

-- Settings ----------------------------------------------------------------------------------------

local function convert(text, default)
  if type(default) == "number" then
    local number = tonumber(text)
    return number and number > 0 and number < math.huge and number or nil
  elseif type(default) == "boolean" then
    return ({ yes = true, no = false })[text]
  end
  return text ~= "" and text or nil
end

--- Read `key = value` lines; a bad line leaves its default standing.
-- @return settings, and what is wrong with the file as a list of texts
function M.settings(path)
  local settings, complaints = {}, {}
  for key, default in pairs(M.DEFAULTS) do settings[key] = default end
  local file = io.open(path)
  if not file then return settings, complaints end
  local number = 0
  for line in file:lines() do
    number = number + 1
    local key, text = line:match("^%s*([%w_]+)%s*=%s*(.-)%s*$")
    local value
    if key and M.DEFAULTS[key] ~= nil then value = convert(text, M.DEFAULTS[key]) end
    if value ~= nil then
      settings[key] = value
    elseif line:match("^%s*[^%s#]") then
      complaints[#complaints + 1] = path .. ":" .. number .. ": not understood: " .. line
    end
  end
  file:close()
  return settings, complaints
end

-- Collecting --------------------------------------------------------------------------------------

-- Slurm's "not set" of each width; 0 where that means "not set" too.
local NO_VAL16 = { [65534] = true, [65535] = true }
local NO_VAL16_OR_0 = { [0] = true, [65534] = true, [65535] = true }
local NO_VAL = { [4294967294] = true, [4294967295] = true }
local NO_VAL_OR_0 = { [0] = true, [4294967294] = true, [4294967295] = true }
local NO_VAL64 = { [18446744073709551616] = true }

local NUMBERS = {
  user_id = NO_VAL, min_nodes = NO_VAL, max_nodes = NO_VAL_OR_0, num_tasks = NO_VAL_OR_0,
  ntasks_per_node = NO_VAL16_OR_0, ntasks_per_socket = NO_VAL16_OR_0,
  cpus_per_task = NO_VAL16_OR_0, min_cpus = NO_VAL_OR_0, max_cpus = NO_VAL_OR_0,
  time_limit = NO_VAL, time_min = NO_VAL_OR_0, begin_time = NO_VAL_OR_0, het_job_offset = NO_VAL,
  contiguous = NO_VAL16_OR_0, shared = NO_VAL16, req_switch = NO_VAL_OR_0,
  min_mem_per_node = NO_VAL64, min_mem_per_cpu = NO_VAL64,
}
local STRINGS = {
  "user_name", "name", "account", "partition", "qos", "array_inx", "dependency", "reservation",
  "req_nodes", "exc_nodes", "features", "licenses", "tres_per_job", "tres_per_node",
  "tres_per_socket", "tres_per_task", "work_dir", "comment",
}

local function default_partition(partitions)
  for name, partition in pairs(partitions or {}) do
    if partition.flag_default == 1 then return name end
  end
end

local function arguments(job_desc)
  local argv, list = job_desc.argv, {}
  for index = 0, (argv and job_desc.argc or 0) - 1 do
    list[index + 1] = argv[index] or ""
  end
  return #list > 0 and list or nil
end

--- The request with the names of `protocol.Job`; what the user left open is absent, except that
-- account, QOS and partition are those the job will get.
function M.collect(job_desc, partitions, max_script_bytes)
  local job = { argv = arguments(job_desc) }
  for field, unset in pairs(NUMBERS) do
    local value = job_desc[field]
    if type(value) == "number" and not unset[value] then job[field] = math.floor(value) end
  end
  -- scrontab sends 0 for a component's number, and its jobs have no components.
  local cron = job_desc.cron_job
  if cron and cron ~= 0 then job.het_job_offset = nil end
  for _, field in ipairs(STRINGS) do
    local value = job_desc[field]
    if type(value) == "string" and value ~= "" then job[field] = value end
  end
  job.account = job.account or job_desc.default_account
  job.qos = job.qos or job_desc.default_qos
  job.partition = job.partition or default_partition(partitions)
  local script = job_desc.script
  if type(script) == "string" and script ~= "" then
    job.script = script:sub(1, max_script_bytes)
    if #script > max_script_bytes then job.script_cut = true end
  end
  return job
end

-- Asking ------------------------------------------------------------------------------------------

--- Send a request line.
-- @return the decoded answer; or nil and why there is none
function M.ask(link, request)
  local line, problem = link:ask(request)
  if not line then return nil, problem end
  local answer = require("nimo_json").decode(line)
  if not answer then return nil, "not JSON: " .. line:sub(1, 80) end
  return answer
end

local function question(job, tell)
  local json = require("nimo_json")
  local ask = { v = M.VERSION, op = "decide", via = "job_submit", job = job, tell = tell }
  local request = json.encode(ask) .. "\n"
  if #request > M.MAX_REQUEST_BYTES then
    job.script, job.script_cut = nil, true
    request = json.encode(ask) .. "\n"
  end
  return request
end

--- Ask what to do with a job; where nimod said that it changes none, only tell it of the job.
-- @return the decoded answer; or nil and why there is none (nil where nimod was told)
function M.decide(link, job)
  if link.quiet and link:tell(question(job, true)) then return nil, nil end
  return M.ask(link, question(job))
end

-- Checking ----------------------------------------------------------------------------------------

local MESSAGE_BYTES = 4096
local FIELDS = { "min_nodes", "max_nodes", "num_tasks", "min_cpus", "time_limit", "time_min" }

--- The words of this process's own command line, each ended by a zero byte; "" where unknown.
function M.command_line()
  local file = io.open("/proc/self/cmdline", "rb")
  local words = file and file:read("*a") or ""
  if file then file:close() end
  return words
end

--- Whether a value is one that Slurm takes for a count.
function M.is_count(value)
  return type(value) == "number" and value >= 1 and value < 4294967294 and value % 1 == 0
end

-- The largest `field` among the partitions that the job names; nil where that is not known.
local function largest(partitions, names, field)
  local found
  for name in (names or ""):gmatch("[^,]+") do
    local value = partitions and partitions[name] and partitions[name][field]
    if type(value) == "number" and value > (found or 0) then found = value end
  end
  return found
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
end

-- More nodes than tasks end slurmctld 22.05 (division by zero) as soon as srun makes a step, and
-- SLURM_NTASKS of salloc and srun is out of reach: their clients have computed it already.
local function check_tasks(change, job)
  local nodes, tasks, per_node = change.min_nodes, change.num_tasks, job.ntasks_per_node
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
  if not cpus then return nil end
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

-- A limit is raised only together with a node count: fewer nodes need longer.
local function check_limit(change, job, partitions)
  local limit = change.time_limit
  if not limit then return nil end
  local own = job.time_limit or default_limit(partitions, job.partition)
  local most = largest(partitions, job.partition, "max_time") or own
  local raised = own and limit > own
  if not own or limit < (job.time_min or 1)
    or raised and not (job.time_limit and change.min_nodes and limit <= most) then
    return "time_limit " .. limit .. " is not allowed"
  end
end

-- slurmctld refuses a time_min beyond the limit, and a user's own stays.
local function check_time_min(change, job)
  local least = change.time_min
  if not least then return nil end
  local limit = change.time_limit or job.time_limit
  if job.time_min or not limit or least > limit then
    return "time_min " .. least .. " is not allowed"
  end
end

local function check_text(answer, field, most_bytes)
  local text = answer[field]
  if text ~= nil and (type(text) ~= "string" or #text > most_bytes) then return "bad " .. field end
end

local function check_change(change, job, partitions)
  if type(change) ~= "table" then return "bad set" end
  for _, field in ipairs(FIELDS) do
    if change[field] ~= nil and not M.is_count(change[field]) then return "bad " .. field end
  end
  return check_nodes(change, job, partitions) or check_tasks(change, job)
    or check_cpus(change, job) or check_limit(change, job, partitions)
    or check_time_min(change, job)
end

--- What is wrong with an answer to `job`; nil when it may be carried out.
function M.fault(answer, job, partitions)
  if answer.v ~= M.VERSION then return "version " .. tostring(answer.v) end
  if answer.ok == false then return "refused: " .. tostring(answer.error) end
  local action = answer.action or "keep"
  if action ~= "keep" and action ~= "set" and action ~= "refuse" then return "bad action" end
  local text = check_text(answer, "message", MESSAGE_BYTES)
    or check_text(answer, "admin_comment", M.MAX_COMMENT_BYTES)
  return text or (action == "set" and check_change(answer.set, job, partitions)) or nil
end

-- Writing -----------------------------------------------------------------------------------------

-- How many tasks the job will have, where its environment says another number: sbatch has put it
-- there from the request, or has passed on that of the job it runs in.
local function tasks_told(job_desc, change)
  local environment = job_desc.environment
  if not environment or not change.min_nodes then return nil end
  local told = tonumber(environment.SLURM_NTASKS)
  if change.num_tasks then return told == job_desc.num_tasks and change.num_tasks or nil end
  if not told or not environment.SLURM_JOB_ID then return nil end
  local per_node = job_desc.ntasks_per_node
  return change.min_nodes * (NO_VAL16_OR_0[per_node or 0] and 1 or per_node)
end

local function planned(job_desc, answer)
  local change = answer.action == "set" and answer.set or {}
  local writes = {}
  local tasks = tasks_told(job_desc, change)
  for _, name in ipairs(tasks and { "SLURM_NTASKS", "SLURM_NPROCS" } or {}) do
    -- srun inside the job goes by them.
    if job_desc.environment[name] then
      local value = ("%d"):format(tasks)
      writes[#writes + 1] = { at = job_desc.environment, key = name, value = value }
    end
  end
  for _, field in ipairs(FIELDS) do
    if change[field] then
      writes[#writes + 1] = { at = job_desc, key = field, value = change[field] }
    end
  end
  if (answer.admin_comment or "") ~= "" then
    local there = job_desc.admin_comment or ""
    local own = answer.admin_comment:gsub("%c", " ")
    local text = (there ~= "" and there .. " " or "") .. own
    writes[#writes + 1] = { at = job_desc, key = "admin_comment", value = text }
  end
  return writes
end

local function put(write, value) write.at[write.key] = value end

--- Carry out writes (`at`, `key`, `value`): all of them or none.
-- @return true; or nil and the error of the write that failed
function M.write(writes)
  for _, write in ipairs(writes) do write.before = write.at[write.key] end
  for index, write in ipairs(writes) do
    local ok, problem = pcall(put, write, write.value)
    if not ok then
      for done = index, 1, -1 do
        pcall(put, writes[done], writes[done].before == nil and "" or writes[done].before)
      end
      return nil, problem
    end
  end
  return true
end

--- Write a checked answer to the job.
-- @return as `M.write`
function M.apply(job_desc, answer) return M.write(planned(job_desc, answer)) end

-- The submission ----------------------------------------------------------------------------------

--- A function that logs a text, but not more often than once in `pause_s`.
function M.complainer(log, clock, pause_s)
  local next_s, silenced = 0, 0
  return function(text)
    local now = clock()
    if now < next_s then
      silenced = silenced + 1
      return
    end
    local more = silenced > 0 and (" (and %d more since the last message)"):format(silenced) or ""
    -- Part of the text may have come from nimod, or from a user through it.
    log("nimo: jobs pass unchanged: " .. tostring(text):gsub("[^\32-\126]", " ") .. more)
    next_s, silenced = now + pause_s, 0
  end
end

--- Whether the site has switched all of this off.
function M.switched_off(settings)
  local file = io.open(settings.kill_switch)
  if file then file:close() end
  return file ~= nil
end

--- Everything from the request to the job's new fields.
-- @param hook settings, link, slurm (Slurm's own table)
-- @param forwarded by cli_filter: `deadline`, `sizes` and `ticket`, each may be absent
-- @return Slurm's return code; nil and why the job passes unchanged (nil when that is as it should)
function M.submit(hook, job_desc, partitions, forwarded)
  if M.switched_off(hook.settings) then return nil, nil end
  hook.link:rouse()
  local job = M.collect(job_desc, partitions, hook.settings.max_script_bytes)
  job.deadline, job.ticket = forwarded.deadline, forwarded.ticket
  job.node_sizes = forwarded.sizes or nil
  local answer, problem = M.decide(hook.link, job)
  if not answer then return nil, problem end
  local fault = M.fault(answer, job, partitions)
  if fault then return nil, "bad answer: " .. fault end
  hook.link.quiet = answer.quiet == true
  local written, failure = M.apply(job_desc, answer)
  if not written then return nil, failure end
  local message = (answer.message or ""):gsub("[%z\1-\9\11-\31\127]", " ")
  if message ~= "" then hook.slurm.user_msg(message) end
  if answer.action == "refuse" then
    -- What Slurm itself says of a deadline that the time limit does not fit.
    return hook.slurm.ESLURM_INVALID_TIME_LIMIT or hook.slurm.ERROR
  end
  return hook.slurm.SUCCESS
end

return M
