-- Feeds the hooks in one Lua state, over and over.
-- Given the stubs of slurmctld, of LuaSocket and the hooks' folder; returns a function that takes what
-- somebody else wrote and gives what is left of the jobs, and the steps that no input took before.

local stub, peer, folder = ...
local USER, BASE = 1001, 4096
local MOST_LINES = 400000
local SCRIPT = "#!/bin/sh\n"
local ROOMS = { batch = { flag_default = 1, total_nodes = 8, max_nodes = 8, max_time = 60 } }
local ready = ""

-- The decision that lies ready is what nimod wrote, too.
local open = io.open
io.open = function(path, mode)
  if not path:find("/ready/", 1, true) then return open(path, mode) end
  return { read = function() return ready end, close = function() end }
end
slurm.json_cli_options = function() return '{"nodes":"1-8","time":"01:00:00","argv":["hostname"]}' end

local function submit(comment)
  local fields = {
    min_nodes = 1, max_nodes = 8, time_limit = 60, user_id = USER, user_name = "alice",
    partition = "batch", script = SCRIPT, comment = comment, environment = {},
  }
  local code = slurm_job_submit(stub.job_desc(fields), ROOMS, USER)
  assert(code == 0, "refused")
  local low, high, limit = fields.min_nodes, fields.max_nodes, fields.time_limit
  assert(1 <= low and low <= high and high <= 8, "nodes")
  assert(3 <= limit and limit <= 60, "limit")
  assert(fields.script == SCRIPT, "script")
  return fields
end

-- What a user writes into every field; nimod answers with another number of GPUs.
local ANSWER = '{"v":1,"action":"set","set":{"tres_per_node":"gres:gpu:2"}}\n'
local TEXTS = { "name", "partition", "features", "req_nodes", "tres_bind", "account", "licenses" }
local function all_fields(data, argc, argv)
  peer.reply = ANSWER
  for round = 1, #TEXTS + 2 do
    local fields = {
      min_nodes = 1, max_nodes = 1, user_id = USER, script = SCRIPT, comment = "nimo:gpus=1-4",
      tres_per_node = "gres:gpu:1", environment = { SLURM_GPUS_PER_NODE = "1" }, partition = "batch",
    }
    if TEXTS[round] then
      fields[TEXTS[round]] = data
    elseif round == #TEXTS + 1 then
      fields.script, fields.environment.SLURM_GPUS_PER_NODE = data, data
    else
      fields.argc, fields.argv = argc, argv
    end
    local script = fields.script
    assert(slurm_job_submit(stub.job_desc(fields), ROOMS, USER) == 0, "refused")
    assert(fields.script == script and fields.min_nodes == 1, "changed")
    for _, line in ipairs(peer.sent) do assert(#line <= 256 * 1024 + 1, "request too long") end
    peer.sent, peer.now = {}, peer.now + 1000
  end
end

local function filter()
  local options = { type = "salloc", nodes = "1-8", time = "01:00:00", argv = { "hostname" } }
  assert(slurm_cli_pre_submit(options, 0) == 0, "cli_filter")
  local nodes = tonumber(options.nodes)
  assert(options.nodes == "1-8" or (1 <= nodes and nodes <= 8), "nodes of cli_filter")
end

local function once(data, argc, argv)
  peer.reply, ready = data, ""
  assert(submit(data).comment == data or data:find("^nimo{"), "comment")
  ready = data
  submit("nimo{deadline=,ticket=abc,own=1} x")
  filter()
  all_fields(data, argc, argv)
end

-- Steps from one line to another that were taken before, of all files together.
local taken, new, last, lines = {}, {}, 0, 0
local function step(_, line)
  lines = lines + 1
  local key = last * BASE + line
  last = line
  if taken[key] then return end
  taken[key] = true
  new[#new + 1] = key
end

dofile(folder .. "/job_submit.lua")
dofile(folder .. "/cli_filter.lua")

return function(data)
  -- Later than any pause of the hooks, so that nimod is asked again.
  peer.sent, peer.now, new, last, lines = {}, peer.now + 1000, {}, 0, 0
  stub.log, stub.messages, stub.writes = {}, {}, {}
  local argc, argv = 0, {}
  for word in data:gmatch("%S+") do argv[argc], argc = word, argc + 1 end
  debug.sethook(step, "l")
  local ok, problem = pcall(once, data, argc, argv)
  debug.sethook()
  assert(ok, problem)
  assert(lines < MOST_LINES, "too many lines of Lua")
  return #new
end
