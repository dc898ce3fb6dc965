--- What job_submit.lua does with a job: asks nimod, checks the answer, writes it.
--
-- The order of a submission is collect, ask, check, write.  Nothing is written to the job before
-- the whole answer has been checked, and a write that fails takes back those before it: on
-- Slurm 22.05 and 24.11 a Lua error would keep half of them, on 26.05 it would refuse the job.
--
-- Lua 5.1 to 5.4.

local json, shared = require("nimo_json"), require("nimo_shared")
local check, memory = require("nimo_check"), require("nimo_memory")
local sizes = require("nimo_sizes")
local switched_off = require("nimo_settings").switched_off

local M = {}

M.MAX_REQUEST_BYTES = 256 * 1024
--- Of all that is read of a job but its script: to encode more takes slurmctld's time.
M.MAX_TEXT_BYTES = 64 * 1024
M.COMPLAINT_PAUSE_S = 30

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
  segment_size = NO_VAL16_OR_0, min_mem_per_node = NO_VAL64, min_mem_per_cpu = NO_VAL64,
}
local STRINGS = {}
for _, field in ipairs({
  "user_name", "name", "dependency", "reservation", "req_nodes", "exc_nodes", "features",
  "licenses", "array_inx", "tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task",
  "work_dir", "comment", "mem_per_tres", "prefer",
}) do STRINGS[field] = true end

-- Fields of a job that name its GPUs, and its variables that do.
local DEVICE_FIELDS = shared.joined(sizes.DEVICES, { "tres_bind" })
local GPU_VARIABLES = {
  SLURM_GPUS = "tres_per_job", SLURM_GPUS_PER_NODE = "tres_per_node",
  SLURM_GPUS_PER_TASK = "tres_per_task",
}

local function default_partition(partitions)
  for name, partition in pairs(partitions or {}) do
    if partition.flag_default == 1 then return name end
  end
end

-- The longest texts that slurmctld takes; it looks at them after the hook only.
local LONGEST = {
  array_inx = 4096, work_dir = 4096, dependency = 16 * 1024, req_nodes = 16 * 1024,
  exc_nodes = 16 * 1024, admin_comment = M.MAX_TEXT_BYTES, SLURM_EXPORT_ENV = M.MAX_TEXT_BYTES,
}
local LONGEST_OTHER = 1024
local ARGUMENT_BYTES = 32 -- what an argument costs besides its length

--- A job's fields, of which a submission can read so much in all: whatever it does with a byte, its
-- steps are bounded.  More is an error, with which the job passes unchanged.
function M.metered(job_desc)
  local left = M.MAX_TEXT_BYTES
  local function pay(bytes, longest)
    left = left - bytes
    if left < 0 or bytes > longest then error("request too long", 0) end
  end
  local function texts(fields)
    return setmetatable({}, {
      __index = function(_, field)
        if field == "argv" then
          local argc = fields.argc or 0
          pay(argc * ARGUMENT_BYTES, left)
          local argv = fields.argv
          for index = 0, (argv and argc or 0) - 1 do pay(#(argv[index] or ""), left) end
          return argv
        end
        local value = fields[field]
        if field == "environment" then return value and texts(value) end
        if type(value) == "string" and field ~= "script" then
          pay(#value, LONGEST[field] or LONGEST_OTHER)
        end
        return value
      end,
      __newindex = function(_, field, value) fields[field] = value end,
    })
  end
  return texts(job_desc)
end

local function arguments(job_desc)
  local argv, list = job_desc.argv, {}
  for index = 0, (argv and job_desc.argc or 0) - 1 do list[index + 1] = argv[index] or "" end
  return #list > 0 and list or nil
end

local function text_of(job_desc, field)
  local value = job_desc[field]
  return type(value) == "string" and value ~= "" and value or nil
end

local floor = math.floor

local function number_of(job_desc, field)
  local value = job_desc[field]
  return type(value) == "number" and not NUMBERS[field][value] and floor(value) or nil
end

-- Fields that are more than one of Slurm's.
local MADE = {
  hook = function() return shared.LEVEL end,
  -- Whether there are places of which one can be tried first.
  places = function(job_desc)
    local partitions, features = text_of(job_desc, "partition"), text_of(job_desc, "features")
    local several = partitions and partitions:find(",", 1, true)
    return (several or features and features:find("|", 1, true)) and true or nil
  end,
  named = function(job_desc)
    local names = {}
    for _, field in ipairs({ "account", "qos", "partition" }) do
      if text_of(job_desc, field) then names[#names + 1] = field end
    end
    return table.concat(names, ",")
  end,
  argv = arguments,
  -- What the user named, as SubmitLine shows it; nothing else of the environment is sent.
  export = function(job_desc)
    local environment = job_desc.environment
    return environment and text_of(environment, "SLURM_EXPORT_ENV")
  end,
  account = function(job_desc) return text_of(job_desc, "account") or job_desc.default_account end,
  qos = function(job_desc) return text_of(job_desc, "qos") or job_desc.default_qos end,
  partition = function(job_desc, partitions)
    return text_of(job_desc, "partition") or default_partition(partitions)
  end,
  -- scrontab sends 0 for a component's number, and its jobs have no components.
  het_job_offset = function(job_desc)
    local cron = job_desc.cron_job
    return (not cron or cron == 0) and number_of(job_desc, "het_job_offset") or nil
  end,
}

--- The request, of which each field is read when it is first looked at.  It has the names of
-- `protocol.Job`; what the user left open is absent, except that account, QOS and partition are
-- those the job will get.
function M.view(job_desc, partitions)
  local function read(job, field)
    local value
    if NUMBERS[field] and not MADE[field] then
      value = number_of(job_desc, field)
    elseif MADE[field] then
      value = MADE[field](job_desc, partitions)
    elseif STRINGS[field] or field == "script" then
      value = text_of(job_desc, field)
    end
    job[field] = value
    return value
  end
  return setmetatable({}, { __index = read })
end

--- The whole request, with at most so much of the script.
function M.collect(job_desc, partitions, max_script_bytes)
  local job = {}
  for field in pairs(NUMBERS) do job[field] = number_of(job_desc, field) end
  for field in pairs(STRINGS) do job[field] = text_of(job_desc, field) end
  for field, make in pairs(MADE) do job[field] = make(job_desc, partitions) end
  local script = text_of(job_desc, "script")
  if script then
    job.script = script:sub(1, max_script_bytes)
    if #script > max_script_bytes then job.script_cut = true end
  end
  return job
end

-- Asking ------------------------------------------------------------------------------------------

local function question(job, one_way)
  local ask = { v = shared.VERSION, op = "decide", via = "job_submit", job = job, one_way = one_way }
  local request = json.encode(ask) .. "\n"
  if #request > M.MAX_REQUEST_BYTES then
    job.script, job.script_cut = nil, true
    request = json.encode(ask) .. "\n"
  end
  return request
end

--- Ask what to do with a job; if nimod said that it changes no job, only inform it of the job.
-- @return the decoded answer; or nil and why there is none (nil if nimod was only informed)
function M.decide(link, job)
  if link.quiet and link:notify(question(job, true)) then return nil, nil end
  return shared.ask(link, question(job))
end

-- Writing -----------------------------------------------------------------------------------------

-- `cpu=2,gres/gpu=1`, as a job and its environment have it since 24.11, with the numbers of a change.
local function of_each_task(text, change)
  local _, gpus = sizes.devices(change.tres_per_task)
  local cpus = change.cpus_per_task
  if cpus then text = ("," .. text):gsub(",cpu([:=])%d+", (",cpu%%1%d"):format(cpus)):sub(2) end
  return gpus and sizes.devices(text) and sizes.recounted(text, gpus) or text
end

-- `gres/gpu:per_task:1`, to which the client binds the tasks since then.
local function binding(text, change)
  local _, gpus = sizes.devices(change.tres_per_task)
  return gpus and text:gsub("(gpu:per_task:)%d+", ("%%1%d"):format(gpus)) or text
end

-- GPUs in the spelling of those that the job has: nimod may have read them of the command.
local function respelled(field, own, change)
  if field == "tres_bind" then return binding(own, change) end
  if field == "tres_per_task" and own ~= "" then return of_each_task(own, change) end
  local _, count = sizes.devices(change[field])
  return count and own ~= "" and sizes.recounted(own, count) or change[field]
end

local function device_fields(job_desc, change)
  local writes = {}
  for _, field in ipairs(sizes.resized(change) and DEVICE_FIELDS or {}) do
    local own = job_desc[field] or ""
    local text = respelled(field, own, change)
    if text and text ~= own then
      writes[#writes + 1] = { at = job_desc, key = field, value = text }
    end
  end
  return writes
end

-- What the variables that sbatch has put there from the request are to say of another size.
local function size_values(environment, change)
  local values = {
    SLURM_NTASKS = change.num_tasks, SLURM_NPROCS = change.num_tasks,
    SLURM_NTASKS_PER_NODE = change.ntasks_per_node,
    SLURM_CPUS_PER_TASK = change.cpus_per_task, SRUN_CPUS_PER_TASK = change.cpus_per_task,
  }
  for name, value in pairs(values) do values[name] = ("%d"):format(value) end
  for name, field in pairs(GPU_VARIABLES) do
    local _, count = sizes.devices(change[field])
    values[name] = count and sizes.recounted(environment[name] or "", count)
  end
  values.SLURM_TRES_PER_TASK = of_each_task(environment.SLURM_TRES_PER_TASK or "", change)
  values.SLURM_TRES_BIND = binding(environment.SLURM_TRES_BIND or "", change)
  return values
end

local function size_variables(job_desc, change)
  local environment, writes = job_desc.environment, {}
  if not environment or not sizes.resized(change) then return writes end
  for name, value in pairs(size_values(environment, change)) do
    if environment[name] and environment[name] ~= value then
      writes[#writes + 1] = { at = environment, key = name, value = value }
    end
  end
  return writes
end

-- How many tasks the job will have, where its environment says another number: sbatch has put it
-- there from the request, or has passed on that of the job it runs in.
local function tasks_of_environment(job_desc, change)
  local environment = job_desc.environment
  if not environment or not change.min_nodes then return nil end
  local stated = tonumber(environment.SLURM_NTASKS)
  if change.num_tasks then return stated == job_desc.num_tasks and change.num_tasks or nil end
  if not stated or not environment.SLURM_JOB_ID then return nil end
  local per_node = job_desc.ntasks_per_node
  return change.min_nodes * (NO_VAL16_OR_0[per_node or 0] and 1 or per_node)
end

local function planned(job_desc, answer)
  local change = answer.action == "set" and answer.set or {}
  local writes = shared.joined(size_variables(job_desc, change), memory.variables(job_desc, change))
  local tasks = tasks_of_environment(job_desc, change)
  for _, name in ipairs(tasks and { "SLURM_NTASKS", "SLURM_NPROCS" } or {}) do
    -- srun inside the job goes by them.
    if job_desc.environment[name] then
      local value = ("%d"):format(tasks)
      writes[#writes + 1] = { at = job_desc.environment, key = name, value = value }
    end
  end
  for _, field in ipairs(check.FIELDS) do
    if change[field] then
      writes[#writes + 1] = { at = job_desc, key = field, value = change[field] }
    end
  end
  for _, field in ipairs(check.PLACES) do
    if change[field] then
      writes[#writes + 1] = { at = job_desc, key = field, value = change[field] }
    end
  end
  if change.soft_min then
    writes[#writes + 1] = { at = job_desc, key = "time_min", value = change.soft_min }
  end
  writes = shared.joined(writes, device_fields(job_desc, change))
  if (answer.admin_comment or "") ~= "" then
    local there = job_desc.admin_comment or ""
    local own = M.printable(answer.admin_comment):gsub("\n", " ")
    local text = (there ~= "" and there .. " " or "") .. own
    writes[#writes + 1] = { at = job_desc, key = "admin_comment", value = text }
  end
  for _, field in ipairs(memory.FIELDS) do
    if change[field] then
      writes[#writes + 1] = { at = job_desc, key = field, value = change[field] }
    end
  end
  return writes
end

--- Write a checked answer to the job.
-- @return as `shared.write`
function M.apply(job_desc, answer) return shared.write(planned(job_desc, answer)) end

--- What commands a terminal or turns its text around, in UTF-8: control characters (U+0080 to
-- U+009F are as good as ESC and a letter), format characters, ends of line that are none of ours.
local UNPRINTABLE = {
  "[%z\1-\9\11-\31\127]",
  "\194[\128-\159\173]", -- U+0080 to U+009F, U+00AD
  "\216[\128-\133\156]", -- U+0600 to U+0605, U+061C
  "\226\128[\139-\143\168-\174]", -- U+200B to U+200F, U+2028 to U+202E
  "\226\129[\160-\175]", -- U+2060 to U+206F
  "\239\187\191", -- U+FEFF
  "\239\191[\185-\187]", -- U+FFF9 to U+FFFB
  "\243\160[\128\129][\128-\191]", -- U+E0000 to U+E007F
}

--- A text without control and format characters, ends of line excepted; spaces are in their place.
-- A byte that a terminal without UTF-8 would take for a control character goes with the character
-- that it is part of; such terminals show letters beyond ASCII as nothing they are, anyhow.
function M.printable(text)
  if not text:find("[^ -~\n]") then return text end
  for _, characters in ipairs(UNPRINTABLE) do text = text:gsub(characters, " ") end
  return text
end

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

local function forward(job, forwarded)
  job.deadline, job.ticket, job.inputs = forwarded.deadline, forwarded.ticket, forwarded.inputs
  job.node_sizes = forwarded.sizes or nil
  return job
end

-- The decision on a job: what lies ready for its ticket, else what nimod answers.
local function decision(hook, job_desc, partitions, forwarded)
  local function fault(answer, job)
    return check.fault(answer, job, partitions, hook.settings, job_desc.environment)
  end
  if forwarded.ticket and not hook.link.quiet then
    local job = forward(M.view(job_desc, partitions), forwarded)
    local answer = hook.ready:take(hook.link, job, fault)
    if answer then return answer end
  end
  local job = M.collect(job_desc, partitions, hook.settings.max_script_bytes)
  local answer, problem = M.decide(hook.link, forward(job, forwarded))
  if not answer then return nil, problem end
  problem = fault(answer, job)
  if problem then return nil, "bad answer: " .. problem end
  hook.link.quiet = answer.quiet == true
  return answer
end

--- Everything from the request to the job's new fields.
-- @param hook settings, link, ready, slurm (Slurm's own table)
-- @param forwarded by cli_filter: `deadline`, `sizes`, `inputs` and `ticket`, each may be absent
-- @return Slurm's return code; nil and why the job passes unchanged (nil when that is as it should)
function M.submit(hook, job_desc, partitions, forwarded)
  if switched_off(hook.settings) then return nil, nil end
  hook.link:begin()
  job_desc = M.metered(job_desc)
  if not forwarded.ticket then hook.link:wake() end
  local answer, problem = decision(hook, job_desc, partitions, forwarded)
  if not answer then return nil, problem end
  local written, failure = M.apply(job_desc, answer)
  if not written then return nil, failure end
  local message = M.printable(answer.message or "")
  if message ~= "" then hook.slurm.user_msg(message) end
  if answer.action == "refuse" then
    -- What Slurm itself says of a deadline that the time limit does not fit.
    return hook.slurm.ESLURM_INVALID_TIME_LIMIT or hook.slurm.ERROR
  end
  return hook.slurm.SUCCESS
end

return M
