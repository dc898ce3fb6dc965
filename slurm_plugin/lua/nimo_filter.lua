--- What cli_filter.lua does: forwards the deadline to job_submit, and has nimod decide before
-- slurmctld sees the job, where the site wants it.
--
-- Lua 5.1 to 5.4.

local M = {}

-- Seconds since the epoch, so that the user's time zone stays here.  Slurm gives local time, or
-- what SLURM_TIME_FORMAT makes of it.
local function epoch(text)
  local year, month, day, hour, minute, second =
    text:match("^(%d%d%d%d)-(%d%d)-(%d%d)T(%d%d):(%d%d):(%d%d)$")
  if not year then return text:match("^%d+$") end
  return ("%d"):format(os.time({
    year = tonumber(year), month = tonumber(month), day = tonumber(day),
    hour = tonumber(hour), min = tonumber(minute), sec = tonumber(second),
  }))
end

local function is_step(options)
  return options.type == "srun" and os.getenv("SLURM_JOB_ID") ~= nil
end

-- The words of this process's own command line, each ended by a zero byte; "" where unknown.
local function command_line()
  local file = io.open("/proc/self/cmdline", "rb")
  local words = file and file:read("*a") or ""
  if file then file:close() end
  return words
end

-- Whether the command line lists node counts (`-N 2,4,8`, from 23.02 on): options show the ends.
local function lists_sizes(options, words)
  if not words:find("%d[:,]%d") or not tostring(options.nodes):find("^%d+%-%d+$") then return false end
  local last = ""
  for word in words:gmatch("[^%z]+") do
    local value = word:match("^%-%-nodes=(.*)$") or word:match("^%-%a*N=?(.+)$")
    if last == "--nodes" or last:find("^%-%a*N$") then value = word end
    if value and value:find("^%d[%d:,-]*$") and value:find("[:,]") then return true end
    last = word
  end
  return false
end

-- The comment with what job_submit needs in front; nil where there is nothing to send, or
-- no room.
-- @param sent `seconds` of the deadline, `sizes`, `inputs` and `ticket`, each may be absent
local function prefixed(own, sent)
  -- A comment that looks like ours is sent behind one of ours, or job_submit would take it.
  if not (next(sent) or own:find("^nimo{")) then return nil end
  local fields = "deadline=" .. (sent.seconds and "uts" .. sent.seconds or "")
  if sent.sizes then fields = fields .. ",sizes=1" end
  if sent.inputs then fields = fields .. ",inputs=" .. sent.inputs end
  if sent.ticket then fields = fields .. ",ticket=" .. sent.ticket end
  local text = "nimo{" .. fields .. ",own=" .. #own .. "} " .. own
  return #text <= 1024 and text or nil -- Slurm refuses jobs with a longer comment
end

-- Whether this is a component of a heterogeneous job.  The offset does not distinguish the first
-- one from a whole job.
local function is_component(offset, words)
  return (tonumber(offset) or 0) > 0 or words:find("\0:\0", 1, true) ~= nil
end

-- What nimod decided: the options to write, and the ticket by which job_submit finds its decision.
local function prepare(settings, options, inputs)
  if not (settings.rewrite_in_cli_filter or settings.ask_ahead) then return {}, nil end
  local ok, writes, ticket = pcall(function()
    return require("nimo_ahead").prepare(settings, options, epoch, inputs or "")
  end)
  if not ok or not writes then return {}, nil end
  return writes, ticket
end

-- Sizes of the files that the command names, as text; nil where there are none.
local function inputs_of(settings, options)
  if not settings.look_at_inputs or require("nimo_settings").switched_off(settings) then return nil end
  local ok, text = pcall(function()
    return require("nimo_look").of(options, settings.inputs_ms / 1000, os.getenv)
  end)
  return ok and text ~= "" and text or nil
end

local TICKET = ("0"):rep(12)

local function forward(settings, options, offset)
  if is_step(options) then return end
  local own = type(options.comment) == "string" and options.comment or ""
  local words, writes = command_line(), {}
  local sent = { sizes = lists_sizes(options, words) or nil, ticket = TICKET }
  sent.seconds = type(options.deadline) == "string" and epoch(options.deadline) or nil
  local whole, room = not is_component(offset, words), prefixed(own, sent) ~= nil
  sent.inputs = whole and room and inputs_of(settings, options) or nil
  if not prefixed(own, sent) then sent.inputs = nil end
  sent.ticket = nil
  if whole and room and not sent.sizes then
    writes, sent.ticket = prepare(settings, options, sent.inputs)
  end
  local comment = prefixed(own, sent)
  if not comment then return end
  if #writes == 0 then
    options.comment = comment
    return
  end
  writes[#writes + 1] = { at = options, key = "comment", value = comment }
  require("nimo_shared").write(writes)
end

--- Do all that is to be done before a submission.
-- @param folder of nimo_hook.conf
-- @param options of the command, as Slurm gives them
-- @param offset of a component of a heterogeneous job
function M.filter(folder, options, offset)
  local settings = require("nimo_settings").read(folder .. "nimo_hook.conf")
  if settings.forward_deadline then forward(settings, options, offset) end
end

return M
