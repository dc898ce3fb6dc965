--- NIMO's job_submit hook: asks nimod what to do with a job, and does it.
--
-- Put it beside slurm.conf together with the nimo_*.lua and nimo_hook.conf,
-- and switch it on with `JobSubmitPlugins=lua`.  slurmctld loads it again when its own time stamp
-- is newer than at the last load: after changing one of the others, touch this one.
--
-- Whatever goes wrong, the job passes as its user wrote it, and slurmctld's log says why.

local folder = debug.getinfo(1, "S").source:match("^@(/.*/)")

-- Templates of a search path that name a folder from the root on: Lua's own begin with the current
-- folder, where anybody may have left a module for the one who submits.
local function absolute(path)
  return (path:gsub("[^;]+", function(template) return template:sub(1, 1) ~= "/" and "" or nil end))
end

local function log(text) slurm.log_error("%s", text) end

-- cli_filter.lua puts `nimo{deadline=uts1767261600,own=9} ` before the user's own comment; `own`
-- is the length of what follows, so that no user's comment is taken for one by accident.  This
-- needs nothing but the job, because it must work when nothing else does.
local function take_back_comment(job_desc)
  local comment = job_desc.comment or ""
  if #comment > 1024 then return {} end -- Slurm will refuse the job
  local fields, length, own = comment:match("^nimo{(deadline=[%w=,]*),own=(%d+)} (.*)$")
  if not own or #own ~= tonumber(length) then return {} end
  job_desc.comment = own
  local deadline = fields:match("^deadline=(%w+)")
  local sizes = fields:find(",sizes=1", 1, true) ~= nil
  local inputs = fields:match(",inputs=([%w=]+)")
  return {
    deadline = deadline, sizes = sizes, inputs = inputs, ticket = fields:match(",ticket=(%x+)$"),
  }
end

local function load_hook()
  package.path, package.cpath = folder .. "?.lua;" .. absolute(package.path), absolute(package.cpath)
  local nimo = require("nimo_submit")
  local settings, complaints = require("nimo_settings").read(folder .. "nimo_hook.conf")
  for _, complaint in ipairs(complaints) do log("nimo: " .. complaint) end
  local link = require("nimo_link").new(settings, nil, true)
  local complain = nimo.complainer(log, link.clock, nimo.COMPLAINT_PAUSE_S)
  local ready = require("nimo_ready").new(settings)
  return {
    nimo = nimo, settings = settings, link = link, ready = ready, complain = complain, slurm = slurm,
  }
end

local path, cpath = package.path, package.cpath
local loaded, hook = pcall(load_hook)
package.path, package.cpath = path, cpath
if not loaded then log("nimo: off until slurmctld loads job_submit.lua again: " .. tostring(hook)) end

function slurm_job_submit(job_desc, partitions, submit_uid)
  local taken, forwarded = pcall(take_back_comment, job_desc)
  if not loaded then return slurm.SUCCESS end
  if not taken then hook.complain(forwarded) end
  local ok, code, problem =
    pcall(hook.nimo.submit, hook, job_desc, partitions, taken and forwarded or {})
  if not ok then problem = code end
  if problem then hook.complain(problem) end
  return ok and code or slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, partitions, modify_uid)
  return slurm.SUCCESS
end

return slurm.SUCCESS
