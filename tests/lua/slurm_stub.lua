-- What slurmctld gives to job_submit.lua, for tests without it: a global `slurm` and job requests
-- that are read and written as Slurm's are.

local NO_VAL, NO_VAL16 = 4294967294, 65534
local UNSET = {
  min_nodes = NO_VAL, max_nodes = NO_VAL, num_tasks = NO_VAL, min_cpus = 1, max_cpus = NO_VAL,
  time_limit = NO_VAL, time_min = NO_VAL, het_job_offset = NO_VAL, req_switch = NO_VAL,
  ntasks_per_node = NO_VAL16, ntasks_per_socket = NO_VAL16, cpus_per_task = NO_VAL16,
  shared = NO_VAL16, contiguous = 0, begin_time = 0, argc = 0,
}

local stub = { log = {}, messages = {}, writes = {} }

slurm = {
  SUCCESS = 0,
  ERROR = -1,
  ESLURM_INVALID_TIME_LIMIT = 2051,
  log_error = function(format, ...) stub.log[#stub.log + 1] = format:format(...) end,
  user_msg = function(text) stub.messages[#stub.messages + 1] = text end,
}

-- A request with `fields`; writing to the field `broken` raises an error, as Slurm does for values
-- it cannot take.
function stub.job_desc(fields, broken)
  local values = setmetatable(fields, { __index = UNSET })
  return setmetatable({}, {
    __index = function(_, field) return values[field] end,
    __newindex = function(_, field, value)
      if field == broken or value == nil then error("cannot write " .. field) end
      stub.writes[#stub.writes + 1] = field
      if value == "" then value = nil end
      values[field] = value
    end,
  })
end

return stub
