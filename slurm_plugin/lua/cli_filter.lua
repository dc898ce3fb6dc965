--- NIMO's cli_filter hook: tells job_submit the deadline, which it cannot see by itself.
--
-- Put it beside slurm.conf on the login nodes together with nimo.lua and nimo_hook.conf, and
-- switch it on with `CliFilterPlugins=lua`.  The deadline travels in front of the comment, from
-- where job_submit.lua takes it away again.  Set `forward_deadline = yes` in nimo_hook.conf when
-- job_submit.lua is installed, and not before: users would see the prefix in their comments.
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

local function forward_deadline(options)
  if is_step(options) then return end
  local own = type(options.comment) == "string" and options.comment or ""
  local seconds = type(options.deadline) == "string" and epoch(options.deadline)
  -- A comment that looks like ours is sent behind one of ours, or job_submit would take it.
  if not seconds and not own:find("^nimo{") then return end
  local deadline = seconds and "uts" .. seconds or ""
  local text = "nimo{deadline=" .. deadline .. ",own=" .. #own .. "} " .. own
  if #text <= nimo.MAX_COMMENT_BYTES then options.comment = text end
end

function slurm_cli_pre_submit(options, offset)
  if settings.forward_deadline then pcall(forward_deadline, options) end
  return slurm.SUCCESS
end

function slurm_cli_setup_defaults(options, early)
  return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job_id, step_id)
  return slurm.SUCCESS
end

return slurm.SUCCESS
