--- Having nimod choose a size while the submit command waits: see nimo_ahead.lua.
--
-- The ends of the user's range of nodes bound what may come back, or the tag in the user's comment.
-- A link as job_submit has it would have to be loaded: this is one question on one connection.
--
-- Lua 5.1 to 5.4, LuaSocket.

local json, shared, sizes = require("nimo_json"), require("nimo_shared"), require("nimo_sizes")

local M = {}

local MAX_ANSWER_BYTES = 64 * 1024
local COUNTS = {
  "min_nodes", "max_nodes", "num_tasks", "ntasks_per_node", "cpus_per_task", "time_limit", "time_min",
}

-- Minutes of a limit as Slurm shows it: [days-]hours:minutes:seconds.
local function minutes(text)
  local days, hours, mins, seconds = tostring(text):match("^(%d*)%-?(%d+):(%d%d):(%d%d)$")
  if not hours then return nil end
  return (tonumber(days) or 0) * 1440 + hours * 60 + mins + (tonumber(seconds) > 0 and 1 or 0)
end

-- An option's number; nil where the user has set none.
local function number(text)
  local value = tonumber(tostring(text):match("^%d+"))
  return value and value >= 1 and value or nil
end

-- The option that names the GPUs of each node: Slurm has two for that.
local function node_option(options)
  return tostring(options.gres):find("gpu", 1, true) and "gres" or "gpus-per-node"
end

-- What an option has where its user has set none.
local UNSET = { ["nil"] = true, unset = true, Unknown = true, ["(null)"] = true }

-- GPUs that the user asks for, in the words of a job; nil where the option is not set.
local function devices(options, name)
  local text = tostring(options[name])
  if UNSET[text] then return nil end
  return name == "gres" and "gres/" .. text:gsub("^gres[:/]", "") or "gres/gpu:" .. text
end

-- What the user asks for, in the words of a job.
local function asked(options)
  return {
    comment = type(options.comment) == "string" and options.comment or nil,
    min_nodes = number(options.nodes), num_tasks = number(options.ntasks),
    cpus_per_task = number(options["cpus-per-task"]),
    tres_per_job = devices(options, "gpus"), tres_per_task = devices(options, "gpus-per-task"),
    tres_per_node = devices(options, node_option(options)),
  }
end

-- Fewer nodes need longer, at most as much longer as they are fewer; twice that, for nimod's margin.
local MARGIN = 2

local function limits_fault(change, options, ratio, settings)
  local limit, own = change.time_limit, minutes(options.time)
  local least = (own or 0) * settings.least_limit_share
  if limit and (not own or limit > MARGIN * own * ratio or limit < least) then
    return "bad time_limit"
  end
  local time_min = change.time_min
  if time_min and (time_min > (limit or own or 0) or time_min < least) then return "bad time_min" end
end

-- How many times smaller a size is than what was asked for, at least 1.
local function reduction(change, job)
  local kind, count = sizes.devices(sizes.gpus(change))
  local _, before = sizes.devices(sizes.gpus(job))
  if not kind then
    count = change.num_tasks or change.cpus_per_task
    before = change.num_tasks and job.num_tasks or job.cpus_per_task
  end
  return math.max((before or 1) / count, 1)
end

-- What is wrong with a change; nil where the user could ask for it with the same words.
local function fault(change, options, range, settings)
  local problem = shared.malformed(change, COUNTS, sizes.DEVICES)
  if problem then return problem end
  local nodes = change.min_nodes
  if sizes.resized(change) then
    if nodes or change.max_nodes then return "nodes beside another size" end
    local job = asked(options)
    return sizes.fault(change, job, settings)
      or limits_fault(change, options, reduction(change, job), settings)
  end
  if not nodes or nodes ~= change.max_nodes or nodes < range.low or nodes > range.high then
    return "nodes are outside the request"
  end
  return limits_fault(change, options, range.high / nodes, settings)
end

-- Options as their user would write them.
local function texts_of(change, options)
  local texts = {
    time = change.time_limit, ["time-min"] = change.time_min, nodes = change.min_nodes,
    ntasks = not change.min_nodes and change.num_tasks or nil,
    ["ntasks-per-node"] = change.ntasks_per_node, ["cpus-per-task"] = change.cpus_per_task,
  }
  for name, value in pairs(texts) do texts[name] = ("%d"):format(value) end
  local names = {
    tres_per_job = "gpus", tres_per_task = "gpus-per-task", tres_per_node = node_option(options),
  }
  for field, name in pairs(names) do
    local text = change[field] and change[field]:gsub("^gres[:/]", "")
    texts[name] = text and (name == "gres" and text or text:gsub("^gpu:", "")) or texts[name]
  end
  return texts
end

local function writes_of(change, options)
  local writes = {}
  for name, text in pairs(texts_of(change, options)) do
    writes[#writes + 1] = { at = options, key = name, value = text }
  end
  return writes
end

-- The answer on a connection; nil where none comes in time.
local function answer_on(connection, settings)
  connection:settimeout(settings.timeout_ms / 1000, "t")
  local line = connection:receive("*l")
  connection:close()
  return line and #line <= MAX_ANSWER_BYTES and json.decode(line) or nil
end

--- Take a size from nimod.
-- @param connection on which it was asked
-- @param range of nodes: `low` and `high`; empty where the user gives none
-- @return the writes to the options, and the decision's ticket; nil to leave all to job_submit
function M.choose(settings, options, connection, range)
  local answer = answer_on(connection, settings)
  local ticket = answer and answer.v == shared.VERSION and answer.ok ~= false and answer.ticket
  if type(ticket) ~= "string" or not ticket:find("^%x+$") or #ticket > 64 then return nil end
  if answer.action ~= "set" then return {}, ticket end
  if fault(answer.set, options, range, settings) then return nil end
  return writes_of(answer.set, options), ticket
end

return M
