--- Numbers of tasks, CPUs and GPUs that nimod chooses: only what the job's own tag asks for, or the
-- site allows.
--
-- Lua 5.1 to 5.4.

local M = {}

local MAX_DEVICES_BYTES = 256
--- Fields that name devices.
M.DEVICES = { "tres_per_job", "tres_per_node", "tres_per_task" }

-- The range that the job's own tag gives, as `nimo:cpus=4-32`; nil where it gives none.
local function tagged(job, name)
  local values = (" " .. (job.comment or "")):match("^.*[%s;|]nimo:(%S*)")
  for part in (values or ""):gmatch("[^,]+") do
    local low, high = part:match("^" .. name .. "=([1-9]%d*)%-([1-9]%d*)$")
    if low then
      low, high = tonumber(low), tonumber(high)
      return math.min(low, high), math.max(low, high)
    end
  end
end

-- Whether a number is one that the job's tag asks for; without one, whether the site's rules may.
local function offered(value, job, name, settings)
  local low, high = tagged(job, name)
  if not low then return settings.allow_sizes end
  return value >= low and value <= high
end

--- Kind and number of GPUs in `gres/gpu:a100:2`, as before 24.11 in `gres:gpu:a100:2`, or since then
-- in `cpu=4,gres/gpu=2`; nil where it names none or several.  The match takes the square of a text's
-- length.
function M.devices(text)
  if #(text or "") > MAX_DEVICES_BYTES then return nil end
  local kind, count
  for part in (text or ""):gmatch("[^,]+") do
    local one, number = part:match("^gres[:/](gpu[%w:_-]-)[:=]?(%d*)$")
    if one and kind then return nil end
    if one then kind, count = one, tonumber(number ~= "" and number or 1) end
  end
  return kind, count
end

--- The same text with another number: of its part that names GPUs, or of the only one.
-- `cpu=4,gres/gpu:a100=1` becomes `cpu=4,gres/gpu:a100=2`, and `a100` becomes `a100:2`.  A long one stays.
function M.recounted(text, count)
  if #text > MAX_DEVICES_BYTES then return text end
  local named = text:find("gpu", 1, true)
  return (text:gsub("[^,]+", function(part)
    if named and not part:find("gpu", 1, true) then return nil end
    local before = part:match("^(.*[:=])%d+$") or part:match("^%d+$") and "" or part .. ":"
    return ("%s%d"):format(before, count)
  end))
end

-- GPUs differ from those asked for in their number alone.
local function devices_fault(change, job, settings)
  for _, field in ipairs(M.DEVICES) do
    local text, own = change[field], job[field] or ""
    if text ~= nil then
      local kind, count = M.devices(text)
      local same = own == "" and not text:find(",", 1, true) or M.devices(own) == kind
      local fits = kind and count and same
      if not fits or not offered(count, job, "gpus", settings) then
        return field .. " is not in the tag"
      end
    end
  end
end

--- GPUs of a change, as the field that names them has it; nil where they stay.
function M.gpus(change)
  return change.tres_per_job or change.tres_per_node or change.tres_per_task
end

--- Whether a change gives the job another size than a node count.
function M.resized(change)
  return change.cpus_per_task or not change.min_nodes and change.num_tasks or M.gpus(change)
end

--- What is wrong with the size of a change; nil where the job's tag or the site asks for it.
-- @param job what its user asks for: `comment`, and the fields of the change
function M.fault(change, job, settings)
  local tasks, each = change.num_tasks, change.cpus_per_task
  if tasks and not offered(tasks, job, "tasks", settings) then
    return "num_tasks is not in the tag"
  end
  if each and not M.gpus(change) and not offered(each, job, "cpus", settings) then
    return "cpus_per_task is not in the tag"
  end
  local per_node = change.ntasks_per_node
  if per_node and (not tasks or per_node * (job.min_nodes or 1) ~= tasks) then
    return "ntasks_per_node does not fit the tasks"
  end
  return devices_fault(change, job, settings)
end

return M
