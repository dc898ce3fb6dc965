--- NIMO's cli_filter hook: tells job_submit the deadline, which it cannot see by itself, and, where
-- the site wants it, has nimod choose the node count before the command works out its tasks.
--
-- Put it beside slurm.conf on the login nodes together with nimo.lua and nimo_hook.conf, and
-- switch it on with `CliFilterPlugins=lua`.  What job_submit has to know travels in front of the
-- comment, from where job_submit.lua takes it away again.  Set `forward_deadline = yes` in
-- nimo_hook.conf when job_submit.lua is installed, and not before: users would see the prefix in
-- their comments.  `rewrite_in_cli_filter = yes` needs it, the other Lua files of the hooks, and
-- nimod's socket on the host where the commands run.
--
-- Whatever goes wrong, the options stay as the user gave them.

local folder = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
package.path = folder .. "?.lua;" .. package.path

local ready, nimo = pcall(require, "nimo")
local settings = ready and nimo.settings(folder .. "nimo_hook.conf") or {}

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

-- Whether the command line lists node counts (`-N 2,4,8`, from 23.02 on): all options show its ends.
local function lists_sizes(options)
  if not tostring(options.nodes):find("^%d+%-%d+$") then return false end
  local last = ""
  for word in nimo.command_line():gmatch("[^%z]+") do
    local value = word:match("^%-%-nodes=(.*)$") or word:match("^%-%a*N=?(.+)$")
    if last == "--nodes" or last:find("^%-%a*N$") then value = word end
    if value and value:find("^%d[%d:,-]*$") and value:find("[:,]") then return true end
    last = word
  end
  return false
end

-- What nimod chose: the options to write, and the ticket by which job_submit finds its decision.
local function choose(options, offset)
  if not settings.rewrite_in_cli_filter then return {}, nil end
  local ok, writes, ticket = pcall(function()
    return require("nimo_rewrite").choose(nimo, settings, options, offset, epoch)
  end)
  if not ok or not writes then return {}, nil end
  return writes, ticket
end

-- The comment with what job_submit has to know in front; nil where there is nothing to tell it, or
-- no room.
local function prefixed(own, seconds, sizes, ticket)
  -- A comment that looks like ours is sent behind one of ours, or job_submit would take it.
  if not (seconds or sizes or ticket or own:find("^nimo{")) then return nil end
  local deadline = seconds and "uts" .. seconds or ""
  local told = "deadline=" .. deadline .. (sizes and ",sizes=1" or "")
  if ticket then told = told .. ",ticket=" .. ticket end
  local text = "nimo{" .. told .. ",own=" .. #own .. "} " .. own
  return #text <= nimo.MAX_COMMENT_BYTES and text or nil
end

local function forward(options, offset)
  if is_step(options) then return end
  local own = type(options.comment) == "string" and options.comment or ""
  local seconds = type(options.deadline) == "string" and epoch(options.deadline) or nil
  local sizes, writes, ticket = lists_sizes(options), {}, nil
  if not sizes then writes, ticket = choose(options, offset) end
  local comment = prefixed(own, seconds, sizes, ticket)
  if not comment and ticket then comment, writes = prefixed(own, seconds, sizes, nil), {} end
  if comment then
    writes[#writes + 1] = { at = options, key = "comment", value = comment }
    nimo.write(writes)
  end
end

function slurm_cli_pre_submit(options, offset)
  if settings.forward_deadline then pcall(forward, options, offset) end
  return slurm.SUCCESS
end

function slurm_cli_setup_defaults(options, early)
  return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job_id, step_id)
  return slurm.SUCCESS
end

return slurm.SUCCESS
