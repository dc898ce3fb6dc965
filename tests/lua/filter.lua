-- lua5.1 filter.lua HOOKS OPTIONS TIMES: passes OPTIONS (JSON) through HOOKS/cli_filter.lua so many
-- times; prints as a JSON line what the comment was the last time, and how many milliseconds each took.

local socket = require("socket")
local hooks, given, times = arg[1], arg[2], tonumber(arg[3])
slurm = { SUCCESS = 0, json_cli_options = function() return "{}" end }
dofile(hooks .. "/cli_filter.lua")
local path = package.path
package.path = hooks .. "/?.lua;" .. path
local json = require("nimo_json")
package.path = path

local options, took = nil, {}
for _ = 1, times do
  options = json.decode(given)
  local began = socket.gettime()
  slurm_cli_pre_submit(options, 0)
  took[#took + 1] = ("%.3f"):format((socket.gettime() - began) * 1000)
end
print(json.encode({ comment = options.comment, took_ms = table.concat(took, " ") }))
