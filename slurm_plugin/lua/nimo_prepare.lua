--- Having nimod choose a node count while the submit command waits: see nimo_ahead.lua.
--
-- The ends of the user's range bound what may come back.
--
-- Lua 5.1 to 5.4, LuaSocket.

local shared = require("nimo_shared")
local new_link = require("nimo_link").new

local M = {}

-- Minutes of a limit as Slurm shows it: [days-]hours:minutes:seconds.
local function minutes(text)
  local days, hours, mins, seconds = tostring(text):match("^(%d*)%-?(%d+):(%d%d):(%d%d)$")
  if not hours then return nil end
  return (tonumber(days) or 0) * 1440 + hours * 60 + mins + (tonumber(seconds) > 0 and 1 or 0)
end

-- Fewer nodes need longer, at most as much longer as they are fewer; twice that, for nimod's margin.
local MARGIN = 2

-- What is wrong with a change; nil where the user could ask for it with the same words.
local function fault(change, options, low, high, settings)
  if type(change) ~= "table" then return "bad set" end
  for _, field in ipairs({ "min_nodes", "max_nodes", "time_limit", "time_min" }) do
    if change[field] ~= nil and not shared.is_count(change[field]) then return "bad " .. field end
  end
  local nodes, limit, own = change.min_nodes, change.time_limit, minutes(options.time)
  if not nodes or nodes ~= change.max_nodes or nodes < low or nodes > high then
    return "nodes are outside the request"
  end
  local least = (own or 0) * settings.least_limit_share
  if limit and (not own or limit > MARGIN * own * high / nodes or limit < least) then
    return "bad time_limit"
  end
  local time_min = change.time_min
  if time_min and (time_min > (limit or own or 0) or time_min < least) then return "bad time_min" end
end

local OPTIONS = {
  { "time_limit", "time" }, { "time_min", "time-min" }, { "min_nodes", "nodes" },
}

local function writes_of(change, options)
  local writes = {}
  for _, pair in ipairs(OPTIONS) do
    local value = change[pair[1]]
    if value then
      writes[#writes + 1] = { at = options, key = pair[2], value = ("%d"):format(value) }
    end
  end
  return writes
end

--- Ask for a node count.
-- @param line the question
-- @return the writes to the options, and the decision's ticket; nil to leave all to job_submit
function M.choose(settings, options, line, low, high)
  local link = new_link(settings)
  local answer = shared.ask(link, line)
  link:close()
  local ticket = answer and answer.v == shared.VERSION and answer.ok ~= false and answer.ticket
  if type(ticket) ~= "string" or not ticket:find("^%x+$") or #ticket > 64 then return nil end
  if answer.action ~= "set" then return {}, ticket end
  if fault(answer.set, options, low, high, settings) then return nil end
  return writes_of(answer.set, options), ticket
end

return M
