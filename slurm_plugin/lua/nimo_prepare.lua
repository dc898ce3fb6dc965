--- Asking nimod before slurmctld sees the job.
--
-- `choose` waits for the answer, so that sbatch, salloc or srun still work out their tasks by the
-- node count; only requests that give a range are asked about, whose ends bound what may come back.
-- `announce` waits for nothing: the decision lies ready when slurmctld asks for it.
--
-- Nothing is written here; whatever cannot be read, asked or believed is left to job_submit.lua.
--
-- Lua 5.1 to 5.4, LuaSocket.

local json, shared = require("nimo_json"), require("nimo_shared")
local new_link = require("nimo_link").new

local M = {}

-- The user's own range; nil where there is nothing to choose.
local function range(options)
  local low, high = tostring(options.nodes):match("^(%d+)-(%d+)$")
  low, high = tonumber(low), tonumber(high)
  if low and low >= 1 and low < high then return low, high end
end

-- Text of a batch script.  Opened for writing too, although nothing is written: to open a FIFO
-- for reading only would wait for a writer, and what has no size is not read.
local function script_text(path, most_bytes)
  local file = io.open(path, "r+b")
  if not file then return nil end
  local text = file:seek("end") and file:seek("set") and file:read(most_bytes) or nil
  file:close()
  return text
end

-- Minutes of a limit as Slurm shows it: [days-]hours:minutes:seconds.
local function minutes(text)
  local days, hours, mins, seconds = tostring(text):match("^(%d*)%-?(%d+):(%d%d):(%d%d)$")
  if not hours then return nil end
  return (tonumber(days) or 0) * 1440 + hours * 60 + mins + (tonumber(seconds) > 0 and 1 or 0)
end

local TIMES = { "begin", "deadline" }

local function command(settings, options, epoch)
  local given = json.decode(slurm.json_cli_options(options))
  local asked = { program = options.type, argv = given.argv, options = {} }
  for name, value in pairs(given) do
    if type(value) == "string" then asked.options[name] = value end
  end
  for _, name in ipairs(TIMES) do
    local seconds = given[name] and epoch(given[name])
    asked.options[name] = seconds and "uts" .. seconds or given[name]
  end
  asked.work_dir = given.chdir or os.getenv("PWD")
  if asked.program == "sbatch" then
    asked.script = given.argv[1] and script_text(given.argv[1], settings.max_script_bytes)
    if not asked.script then return nil end
  end
  if not given.argv[1] then asked.argv = nil end
  return asked
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

-- Ask for a node count: the writes to the options, and the decision's ticket; nil to leave all to
-- job_submit.
local function choose(settings, options, asked, low, high)
  local link = new_link(settings)
  local request = { v = shared.VERSION, op = "prepare", command = asked }
  local answer = shared.ask(link, json.encode(request) .. "\n")
  link:close()
  local ticket = answer and answer.v == shared.VERSION and answer.ok ~= false and answer.ticket
  if type(ticket) ~= "string" or not ticket:find("^%x+$") or #ticket > 64 then return nil end
  if answer.action ~= "set" then return {}, ticket end
  if fault(answer.set, options, low, high, settings) then return nil end
  return writes_of(answer.set, options), ticket
end

-- Six random bytes in hexadecimal; nil where there are none.
local function random_ticket()
  local file = io.open("/dev/urandom", "rb")
  local bytes = file and file:read(6)
  if file then file:close() end
  return bytes and #bytes == 6 and bytes:gsub(".", function(byte)
    return ("%02x"):format(byte:byte())
  end) or nil
end

-- Say what is about to be submitted; the ticket under which the decision will lie ready.
local function announce(settings, asked)
  local ticket = random_ticket()
  if not ticket then return nil end
  local link = new_link(settings)
  local request =
    { v = shared.VERSION, op = "prepare", tell = true, ticket = ticket, command = asked }
  local told = link:tell(json.encode(request) .. "\n")
  link:close()
  if told then return {}, ticket end
end

--- Have nimod decide on what is about to be submitted.
-- @param epoch makes seconds of a time as Slurm shows it
-- @return the writes to the options, and the decision's ticket; nil to leave all to job_submit
function M.prepare(settings, options, epoch)
  local low, high = range(options)
  local waits = low and settings.rewrite_in_cli_filter
  if not (waits or settings.ask_ahead) or require("nimo_settings").switched_off(settings) then
    return nil
  end
  local asked = command(settings, options, epoch)
  if not asked then return nil end
  if waits then return choose(settings, options, asked, low, high) end
  return announce(settings, asked)
end

return M
