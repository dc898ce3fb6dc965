--- Requests to nimod as JSON.
--
-- Of our own, because encoding is on slurmctld's way: one pass over the script.  Apart from decoding,
-- because a submit command that waits for no answer loads this alone.
--
-- Lua 5.1 to 5.4.

-- The text with every byte that is not part of valid UTF-8 replaced: JSON must be UTF-8.
local function valid_utf8(text)
  local good, at = {}, 1
  while at <= #text do
    local piece = text:match("^[^\128-\255]+", at) or text:match("^[\194-\223][\128-\191]", at)
      or text:match("^\224[\160-\191][\128-\191]", at)
      or text:match("^\237[\128-\159][\128-\191]", at)
      or text:match("^[\225-\236\238\239][\128-\191][\128-\191]", at)
      or text:match("^\240[\144-\191][\128-\191][\128-\191]", at)
      or text:match("^[\241-\243][\128-\191][\128-\191][\128-\191]", at)
      or text:match("^\244[\128-\143][\128-\191][\128-\191]", at)
    good[#good + 1] = piece or "\239\191\189"
    at = at + (piece and #piece or 1)
  end
  return table.concat(good)
end

local more_than_ascii
local ESCAPES = setmetatable({ ["\n"] = "\\n", ['"'] = '\\"', ["\\"] = "\\\\" }, {
  __index = function(_, byte)
    if byte:find("%c") then return ("\\u%04x"):format(byte:byte()) end
    more_than_ascii = true
    return nil
  end,
})

local function quoted(text)
  more_than_ascii = false
  -- All but printable ASCII without quote and backslash; most characters are in the first range.
  local escaped = text:gsub("[^^-~ #-[!%]]", ESCAPES)
  return '"' .. (more_than_ascii and valid_utf8(escaped) or escaped) .. '"'
end

local encode

-- Keys as they are written: there are few.
local KEYS = setmetatable({}, {
  __index = function(keys, key)
    keys[key] = quoted(key) .. ":"
    return keys[key]
  end,
})

local function members(value)
  local parts = {}
  for key, member in pairs(value) do parts[#parts + 1] = KEYS[key] .. encode(member) end
  return "{" .. table.concat(parts, ",") .. "}"
end

local function elements(value)
  local parts = {}
  for index, element in ipairs(value) do parts[index] = encode(element) end
  return "[" .. table.concat(parts, ",") .. "]"
end

--- JSON of strings, whole numbers, booleans, and tables of these: lists when they have a first
-- element, objects otherwise.
function encode(value)
  if type(value) == "table" then return (value[1] ~= nil and elements or members)(value) end
  if type(value) == "number" then return ("%.0f"):format(value) end
  return type(value) == "string" and quoted(value) or tostring(value)
end

return { encode = encode, quoted = quoted, valid_utf8 = valid_utf8 }
