--- What both hooks do with nimod's answers: ask, check counts, write all or nothing.
--
-- Lua 5.1 to 5.4.

local json = require("nimo_json")

local M = {}

M.VERSION = 1 -- of the messages, see slurm_plugin/protocol/
M.LEVEL = 1 -- what this hook can write: HookLevel there
M.MAX_COMMENT_BYTES = 1024 -- Slurm refuses jobs with a longer comment

--- Send a request line.
-- @return the decoded answer; or nil and why there is none
function M.ask(link, request)
  local line, problem = link:ask(request)
  if not line then return nil, problem end
  local answer = json.decode(line)
  if not answer then return nil, "not JSON: " .. line:sub(1, 80) end
  return answer
end

--- Whether a value is one that Slurm takes for a count.
function M.is_count(value)
  return type(value) == "number" and value >= 1 and value < 4294967294 and value % 1 == 0
end

--- One list of two.
function M.joined(one, other)
  local all = {}
  for _, list in ipairs({ one, other }) do
    for _, value in ipairs(list) do all[#all + 1] = value end
  end
  return all
end

--- What is wrong with the form of a change; nil where its fields are counts and texts.
function M.malformed(change, counts, texts)
  if type(change) ~= "table" then return "bad set" end
  for _, field in ipairs(counts) do
    if change[field] ~= nil and not M.is_count(change[field]) then return "bad " .. field end
  end
  for _, field in ipairs(texts) do
    if change[field] ~= nil and type(change[field]) ~= "string" then return "bad " .. field end
  end
end

local function put(write, value) write.at[write.key] = value end

--- Carry out writes (`at`, `key`, `value`): all of them or none.
-- @return true; or nil and the error of the write that failed
function M.write(writes)
  for _, write in ipairs(writes) do write.before = write.at[write.key] end
  for index, write in ipairs(writes) do
    local ok, problem = pcall(put, write, write.value)
    if not ok then
      for done = index, 1, -1 do
        pcall(put, writes[done], writes[done].before == nil and "" or writes[done].before)
      end
      return nil, problem
    end
  end
  return true
end

return M
