--- Asking nimod before slurmctld sees the job.
--
-- Where `rewrite_in_cli_filter` is on and the request leaves its size open (a range of nodes, or a
-- tag), the command waits for the answer (nimo_prepare.lua), so that sbatch, salloc or srun still
-- work out all that depends on it.  Else, with `ask_ahead`, it waits for nothing: the decision lies
-- ready when slurmctld looks for it.  Small, because each sbatch loads it: Slurm's own JSON of the
-- options goes to nimod as it is.
--
-- Nothing is written here; whatever cannot be read, asked or believed is left to job_submit.lua.
--
-- Lua 5.1 to 5.4, LuaSocket.

local encoding, script_text = require("nimo_encode"), require("nimo_script")

local M = {}

local MAX_TEXT_BYTES = 64 * 1024 -- as in nimo_submit.lua: to encode more takes long

M.VERSION = 1 -- of the messages, see slurm_plugin/protocol/
-- What can be written: HookLevel there.  Of a command that does not wait job_submit writes it.
local BY_JOB_SUBMIT, BY_COMMAND = 1, 2

-- The user's own range of nodes; nil where it leaves nothing to choose.
local function range(options)
  local low, high = tostring(options.nodes):match("^(%d+)-(%d+)$")
  low, high = tonumber(low), tonumber(high)
  if low and low >= 1 and low < high then return { low = low, high = high } end
end

-- Whether nimod may choose tasks, CPUs or GPUs: by the user's tag, or by the site's rules.
local function leaves_size(options, settings)
  if settings.allow_sizes then return true end
  local comment = type(options.comment) == "string" and options.comment or ""
  if not comment:find("nimo:", 1, true) then return false end
  for _, name in ipairs({ "cpus=", "tasks=", "gpus=" }) do
    if comment:find(name, 1, true) then return true end
  end
  return false
end

-- Times that the user has set, as seconds since the epoch: the time zone stays here.
local function times(options, epoch)
  local parts = {}
  for _, name in ipairs({ "begin", "deadline" }) do
    local seconds = type(options[name]) == "string" and epoch(options[name])
    if seconds then parts[#parts + 1] = ('"%s":"uts%s"'):format(name, seconds) end
  end
  return table.concat(parts, ",")
end

-- No zone changes its clock twice in so short a time.
local STEP_S, STEPS = 28 * 86400, 13

-- How many seconds local time is ahead of UTC.
local function offset(moment)
  local sign, hours, minutes = os.date("%z", moment):match("^([+-])(%d%d)(%d%d)$")
  if not sign then return nil end
  return tonumber(sign .. "1") * (tonumber(hours) * 3600 + tonumber(minutes) * 60)
end

-- The user's local time as nimod takes it: since when it is how far from UTC, for a year from now.
local function utc_offsets(now)
  local last, parts = offset(now), {}
  if not last then return "" end
  parts[1] = ("[%d,%d]"):format(now, last)
  for step = 1, STEPS do
    local low, high = now + (step - 1) * STEP_S, now + step * STEP_S
    local changed = offset(high)
    if changed ~= last then
      while high - low > 1 do
        local middle = math.floor((low + high) / 2)
        if offset(middle) == changed then high = middle else low = middle end
      end
      parts[#parts + 1], last = ("[%d,%d]"):format(high, changed), changed
    end
  end
  return table.concat(parts, ",")
end

-- What input files say of the number of tasks, where that may be chosen; of a command that waits.
local function input_text(settings, options, level)
  if level < BY_COMMAND or not leaves_size(options, settings) then return "" end
  local folder = type(options.chdir) == "string" and options.chdir or os.getenv("PWD") or ""
  return folder ~= "" and require("nimo_inputs")(folder, script_text) or ""
end

--- The line that asks nimod about a command.
-- @param how `"one_way":true` and the ticket, or ""; ends with a comma
-- @param level what can be written
-- @param inputs sizes of input files, as text
-- @return nil where the script cannot be read or the options are too long
local function question(settings, options, epoch, how, level, inputs)
  local path, script = options.argv and options.argv[1], ""
  if options.type == "sbatch" then
    script = path and script_text(path, settings.max_script_bytes)
    if not script then return nil end
  end
  local given = slurm.json_cli_options(options)
  if #given > MAX_TEXT_BYTES then return nil end
  -- On one line; a line's end within a text is escaped already.
  given = encoding.valid_utf8(given:gsub("[\r\n]", " "), nil)
  return ('{"v":%d,"op":"prepare","utc_offsets":[%s],%s"command":{"hook":%d,"places":true,"program":%s,"work_dir":%s,"script":%s,"times":{%s},'
    .. '"input_text":%s,"inputs":%s,"given":%s}}\n'):format(M.VERSION, utc_offsets(os.time()), how, level,
    encoding.quoted(options.type or ""), encoding.quoted(os.getenv("PWD") or ""),
    encoding.quoted(script), times(options, epoch),
    encoding.quoted(input_text(settings, options, level)), encoding.quoted(inputs), given)
end

-- Six random bytes in hexadecimal; nil where there are none.
local function random_ticket()
  local file = io.open("/dev/urandom", "rb")
  if file then file:setvbuf("no") end -- or the kernel makes four thousand
  local bytes = file and file:read(6)
  if file then file:close() end
  return bytes and #bytes == 6 and bytes:gsub(".", function(byte)
    return ("%02x"):format(byte:byte())
  end) or nil
end

-- LuaSocket's module, which is no Lua: first without looking for it in all folders of such.
local function unix_sockets()
  local path = package.path
  package.path = ""
  local ok, module = pcall(require, "socket.unix")
  package.path = path
  return ok and module or require("socket.unix")
end

-- Send a line: the connection if all of it is on its way.  Neither connecting nor sending waits.
local function send(settings, line)
  local unix = unix_sockets()
  local connection = (type(unix) == "table" and (unix.stream or unix.tcp) or unix)()
  connection:settimeout(0, "t")
  if connection:connect(settings.socket) and connection:send(line) == #line then
    return connection
  end
  connection:close()
end

-- Say what is about to be submitted; the ticket under which the decision will lie ready.
local function announce(settings, options, epoch, inputs)
  local ticket = random_ticket()
  if not ticket then return nil end
  local how = '"one_way":true,"ticket":"' .. ticket .. '",'
  local line = question(settings, options, epoch, how, BY_JOB_SUBMIT, inputs)
  local connection = line and send(settings, line)
  if not connection then return nil end
  connection:close()
  return {}, ticket
end

--- Have nimod decide on what is about to be submitted.
-- @param epoch makes seconds of a time as Slurm shows it
-- @param inputs sizes of input files, as text
-- @return the writes to the options, and the decision's ticket; nil to leave all to job_submit
function M.prepare(settings, options, epoch, inputs)
  local nodes = range(options)
  local waits = settings.rewrite_in_cli_filter and (nodes or leaves_size(options, settings))
  if not (waits or settings.ask_ahead) or require("nimo_settings").switched_off(settings) then
    return nil
  end
  if not waits then return announce(settings, options, epoch, inputs) end
  local line = question(settings, options, epoch, "", BY_COMMAND, inputs)
  local connection = line and send(settings, line)
  if not connection then return nil end
  return require("nimo_prepare").choose(settings, options, connection, nodes or {})
end

return M
