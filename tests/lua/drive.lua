-- lua5.1 drive.lua HOOKS JOB PAUSE...: submits JOB (fields in JSON) through HOOKS/job_submit.lua
-- before, between and after pauses of so many seconds, or of a line on standard input for "line";
-- prints what came of each as a JSON line.

local socket = require("socket")
package.path = arg[0]:match("^(.*/)") .. "?.lua;" .. package.path
local stub = require("slurm_stub")
dofile(arg[1] .. "/job_submit.lua")
package.path = arg[1] .. "/?.lua;" .. package.path
local json = require("nimo_json")

local function list(texts)
  local parts = {}
  for index, text in ipairs(texts) do parts[index] = json.encode(text) end
  return "[" .. table.concat(parts, ",") .. "]"
end

local function submit()
  local job, began = stub.job_desc(json.decode(arg[2])), socket.gettime()
  stub.log, stub.messages, stub.writes = {}, {}, {}
  local code = slurm_job_submit(job, {}, 1000)
  local took_s = socket.gettime() - began
  local left = json.encode({
    code = code, min_nodes = job.min_nodes, max_nodes = job.max_nodes,
    comment = job.comment, admin_comment = job.admin_comment,
  })
  print(("%s,\"took_s\":%f,\"log\":%s,\"messages\":%s,\"writes\":%s}"):format(
    left:sub(1, -2), took_s, list(stub.log), list(stub.messages), list(stub.writes)))
  io.stdout:flush()
end

submit()
for index = 3, #arg do
  if arg[index] == "line" then io.read() else socket.sleep(tonumber(arg[index])) end
  submit()
end
