--- Decisions that lie ready: cli_filter has asked for them before slurmctld saw the job, and nimod
-- has written each to a small file, named by user and ticket, in a folder that only nimod writes to.
--
-- A decision is taken only for the job that it was made for, once, and while it is fresh.  All else
-- is asked about as ever.
--
-- Lua 5.1 to 5.4.

local json, shared = require("nimo_json"), require("nimo_shared")
local sizes = require("nimo_sizes")

local MAX_BYTES = 16 * 1024
local MAX_TAKEN = 10000

local Ready = {}
Ready.__index = Ready

local function read(path)
  local file = io.open(path, "rb")
  if not file then return nil end
  local text = file:read(MAX_BYTES)
  file:close()
  return text and json.decode(text)
end

-- Whether the job is the one that the decision is about.
local function is_about(decision, job)
  if type(decision.fields) ~= "table" or type(decision.values) ~= "table" then return false end
  if job.user_id ~= decision.user_id then return false end
  for index, field in ipairs(decision.fields) do
    if job[field] ~= decision.values[index] then return false end
  end
  return true
end

-- What nimod needs to find the decision again, and to see that it is this job's.
local function report(job, decision)
  local short = { user_id = job.user_id, ticket = job.ticket, hook = job.hook }
  for _, list in ipairs({ decision.fields, sizes.DEVICES }) do
    for _, field in ipairs(list) do short[field] = job[field] end
  end
  local notice = { v = shared.VERSION, op = "decide", one_way = true, taken = true, job = short }
  return json.encode(notice) .. "\n"
end

function Ready:remember(path)
  self.count = self.count + 1
  if self.count > MAX_TAKEN then self.taken, self.count = {}, 1 end
  self.taken[path] = true
end

--- The decision on a job that shows a ticket, after nimod was informed that the hook uses it.
-- @param job as nimo.view has it: what is not looked at is not read
-- @param fault says what is wrong with an answer to the job
-- @return the answer to carry out; nil where nimod is to be asked
function Ready:take(link, job, fault)
  if link:resting() or not job.user_id then return nil end
  local path = ("%s%d-%s"):format(self.folder, job.user_id, job.ticket)
  if self.taken[path] then return nil end
  local decision = read(path)
  if not decision or decision.v ~= shared.VERSION or type(decision.answer) ~= "table" then
    return nil
  end
  local fresh = type(decision.until_s) == "number" and self.now() < decision.until_s
  if not fresh or not is_about(decision, job) or fault(decision.answer, job) then return nil end
  if not link:notify(report(job, decision)) then return nil end
  self:remember(path)
  return decision.answer
end

--- @param now seconds since the epoch; os.time where none is given
local function new(settings, now)
  local folder = (settings.socket:match("^(.*/)") or "./") .. "ready/"
  return setmetatable({ folder = folder, taken = {}, count = 0, now = now or os.time }, Ready)
end

return { new = new }
