--- NIMO's cli_filter hook: forwards the deadline to job_submit, which Slurm does not, and, where
-- the site wants it, has nimod decide before slurmctld sees the job.
--
-- Put it beside slurm.conf on the login nodes together with the nimo_*.lua and nimo_hook.conf, and
-- switch it on with `CliFilterPlugins=lua`.  What job_submit needs travels in front of the
-- comment, from where job_submit.lua takes it away again.  Set `forward_deadline = yes` in
-- nimo_hook.conf when job_submit.lua is installed, and not before: users would see the prefix in
-- their comments.  `ask_ahead` and `rewrite_in_cli_filter` need it, and nimod's socket on the host
-- where the commands run.
--
-- Every submission compiles this file, so the rest is in nimo_filter.lua and others, as `nimo
-- hook-path --install` has compiled them.  Whatever goes wrong, the options stay as they were.

local folder = debug.getinfo(1, "S").source:match("^@(/.*/)")

-- Templates of a search path that name a folder from the root on: Lua's own begin with the current
-- folder, where anybody may have left a module for the one who submits.
local function absolute(path)
  return (path:gsub("[^;]+", function(template) return template:sub(1, 1) ~= "/" and "" or nil end))
end

local function contents(path)
  local file = io.open(path, "rb")
  local text = file and file:read("*a")
  return text, file and file:close()
end

-- A compiled module.  Such a file holds code for one version of Lua and the sources that it was made
-- of: it gives the module only beside those very sources.
table.insert(package.loaders or package.searchers, 2, function(name)
  local copy = folder and name:find("^nimo_") and loadfile(folder .. name .. ".lua" .. _VERSION:sub(5))
  if not copy then return nil end
  local whole, module = pcall(copy, folder, contents)
  return whole and module or nil
end)

-- Whether nimod or job_submit may have to hear of a command.  Of most they need not, where nothing is
-- asked here: those load no module, and cost a tenth of a millisecond less.
local function concerns(options)
  local conf = "\n" .. (contents(folder .. "nimo_hook.conf") or "")
  return conf:find("\n%s*ask_ahead%s*=%s*yes") or conf:find("\n%s*look_at_inputs%s*=%s*yes")
    or conf:find("\n%s*rewrite_in_cli_filter%s*=%s*yes")
    or tostring(options.deadline):find("%d") or tostring(options.comment):find("^nimo{")
    or (contents("/proc/self/cmdline") or ""):find("%d[:,]%d") -- may list node counts
end

function slurm_cli_pre_submit(options, offset)
  local path, cpath = package.path, package.cpath
  pcall(function()
    if not concerns(options) then return end
    package.path, package.cpath = folder .. "?.lua;" .. absolute(path), absolute(cpath)
    require("nimo_filter").filter(folder, options, offset)
  end)
  package.path, package.cpath = path, cpath
  return slurm.SUCCESS
end

function slurm_cli_setup_defaults(options, early)
  return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job_id, step_id)
  return slurm.SUCCESS
end

return slurm.SUCCESS
