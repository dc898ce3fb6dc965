-- LuaSocket with a nimod at its other end that does as `peer` says, and a clock that stands still
-- until somebody waits.

local peer = { reply = "", connect_problem = nil, problem = "timeout", sent = {}, connections = 0,
  closed = 0, now = 1000, send_s = 0, awake = 0 }

local function connection()
  local self, buffer, timeout_s = {}, "", 0
  function self:settimeout(value)
    if value < 0 then error("LuaSocket would wait for ever") end
    timeout_s = value
  end
  function self:connect()
    if peer.connect_problem then return nil, peer.connect_problem end
    peer.connections = peer.connections + 1
    return 1
  end
  function self:send(line)
    if line == "\n" then
      peer.awake = peer.awake + 1
      return 1
    end
    if peer.takes then -- once: as many bytes, or none and an error
      local taken = peer.takes
      peer.takes = nil
      return taken > 0 and taken or nil, "closed"
    end
    peer.sent[#peer.sent + 1] = line
    buffer = buffer .. peer.reply
    peer.now = peer.now + peer.send_s
    return #line
  end
  local function line()
    local first, rest = buffer:match("^([^\n]*)\n(.*)$")
    buffer = rest or buffer
    return first
  end
  function self:receive(count)
    if count == "*l" then
      local whole = line()
      if whole then return whole end
      count = #buffer + 1
    end
    local piece = buffer:sub(1, count)
    buffer = buffer:sub(count + 1)
    if #piece == count then return piece end
    if peer.problem == "timeout" then peer.now = peer.now + timeout_s end
    return nil, peer.problem, piece
  end
  function self:close() peer.closed = peer.closed + 1 end
  return self
end

package.preload["socket.core"] = function() return { gettime = function() return peer.now end } end
package.preload["socket.unix"] = function() return { stream = connection } end

return peer
