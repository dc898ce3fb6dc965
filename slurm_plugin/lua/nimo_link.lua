--- A connection to nimod that stays open between jobs and never exceeds its time limit.
--
-- Lua 5.1 to 5.4, LuaSocket.

local gettime, unix = require("socket.core").gettime, require("socket.unix")

local MAX_ANSWER_BYTES = 64 * 1024
local BUSY_S = 0.05 -- two submissions within this time: nimod has hardly fallen asleep
local FIRST_REST_S = 0.25 -- after the first time-outs in a row; each one more doubles it

local Link = {}
Link.__index = Link

function Link:close()
  if self.connection then self.connection:close() end
  self.connection, self.quiet = nil, false
end

-- Let the next call on the connection take what is left of the time.
local function grant(connection, left_s)
  if left_s <= 0 then return nil, "timeout" end
  connection:settimeout(left_s, "t")
  return true
end

function Link:connect(left)
  if self.reserved then
    local ok, problem = self:connect_to(self.reserved, left)
    if ok or problem == "timeout" then return ok, problem end
  end
  return self:connect_to(self.settings.socket, left)
end

function Link:connect_to(path, left)
  local connection = self.stream()
  local ok, problem = grant(connection, left())
  if ok then ok, problem = connection:connect(path) end
  if not ok then
    connection:close()
    return nil, problem
  end
  self.connection = connection
  return true
end

local function receive_line(connection, left)
  local text = ""
  repeat
    local ok, problem = grant(connection, left())
    if not ok then return nil, problem end
    -- Wait for one byte, then take what has come: waiting for a line would not bound its length.
    local first, failure = connection:receive(1)
    if not first then return nil, failure end
    connection:settimeout(0, "t")
    local more, _, partial = connection:receive(MAX_ANSWER_BYTES)
    text = text .. first .. (more or partial or "")
    if #text > MAX_ANSWER_BYTES then return nil, "answer too long" end
  until text:find("\n", 1, true)
  local line, rest = text:match("^([^\n]*)\n(.*)$")
  if rest ~= "" then return nil, "more than one answer" end
  return line
end

function Link:exchange(request, left)
  local ok, problem = true, nil
  if not self.connection then ok, problem = self:connect(left) end
  if ok then ok, problem = grant(self.connection, left()) end
  if ok then ok, problem = self.connection:send(request) end
  local line
  if ok then line, problem = receive_line(self.connection, left) end
  -- After a failure an answer may still be on its way, and would reach the next job.
  if not line then self:close() end
  return line, problem
end

--- A submission begins: all that the hook does for it counts.
function Link:begin()
  local now = self.clock()
  self.busy = now - self.began < BUSY_S
  self.began = now
end

function Link:left_s() return self.began + self.settings.timeout_ms / 1000 - self.clock() end

--- Announce a question with an empty line, so that nimod is awake when it comes.
-- Measured (docs/measured.md): the hook takes 741 µs instead of 831 for a submission that comes alone.
-- Of many, one after the other, that would take nimod as long as the answers.
function Link:wake()
  if not self.connection or self.quiet or self.busy then return end
  self.connection:settimeout(0, "t")
  self.connection:send("\n") -- where that fails, asking will, too
end

--- Send one line and wait for no answer.
-- Measured (docs/measured.md): a submission costs slurmctld 170 to 270 µs this way, and 670 to 740 µs
-- where it waits for an answer.
-- @return whether all of it is on its way; if not, the connection is closed
function Link:notify(request)
  local function left() return self:left_s() end
  if not self.connection and not self:connect(left) then return false end
  self.connection:settimeout(0, "t")
  local sent = self.connection:send(request)
  if sent ~= #request then self:close() end
  return sent == #request
end

--- Whether nimod is left alone for a while.
function Link:resting() return self.clock() < self.rest_until end

--- Send one line and wait for one line.
-- @return the answer without its newline; or nil and why not (nil while resting)
function Link:ask(request)
  if self:resting() then return nil, nil end
  local function left() return self:left_s() end
  if left() <= 0 then return nil, "no time was left to ask nimod" end -- no fault of its
  local reused = self.connection ~= nil
  local line, problem = self:exchange(request, left)
  if not line and reused and problem ~= "timeout" then -- nimod was started anew since the last job
    line, problem = self:exchange(request, left)
  end
  self.timeouts = problem == "timeout" and self.timeouts + 1 or 0
  local more = self.timeouts - self.settings.breaker_failures
  if more >= 0 then
    local rest_s = math.min(FIRST_REST_S * 2 ^ math.min(more, 30), self.settings.breaker_s)
    self.rest_until = self.clock() + rest_s
    problem = ("%s, not asking for %g s"):format(problem, rest_s)
  end
  return line, problem
end

--- Make a connection, without connecting yet.
-- It never takes longer than `timeout_ms` from `begin` on, and after `breaker_failures` time-outs in a row
-- it does not try for a while: submissions are serial, so each would wait for all before it.  The while
-- is a quarter of a second, twice as long after each further time-out, `breaker_s` at most: a few answers that
-- came late on a busy machine buy no long silence.
-- A nimod that is not there costs no time and is therefore asked again at the next job.
-- @param clock seconds as a number; LuaSocket's where none is given
-- @param reserved whether to try nimod's socket for slurmctld alone first: users cannot fill it, and
-- a nimod of another release may have none
local function new(settings, clock, reserved)
  return setmetatable({
    settings = settings,
    clock = clock or gettime,
    reserved = reserved and settings.socket:gsub("%.sock$", "") .. ".ctld" or nil,
    stream = type(unix) == "table" and (unix.stream or unix.tcp) or unix,
    quiet = false,
    began = 0,
    timeouts = 0,
    rest_until = 0,
  }, Link)
end

return { new = new }
