--- Requests to nimod as JSON.
--
-- Of our own, because encoding is on slurmctld's way: one pass over the script.  Apart from decoding,
-- because a submit command that waits for no answer loads this alone.
--
-- Lua 5.1 to 5.4.

local MARK = "\1"
-- Well-formed UTF-8 beyond ASCII: lead byte where there is but one, sequence, and its bytes marked.
local SEQUENCES = {
  { nil, "([\194-\223])([\128-\191])", "\1%1\1%2" },
  { "\224", "(\224)([\160-\191])([\128-\191])", "\1%1\1%2\1%3" },
  { "\237", "(\237)([\128-\159])([\128-\191])", "\1%1\1%2\1%3" },
  { nil, "([\225-\236\238\239])([\128-\191])([\128-\191])", "\1%1\1%2\1%3" },
  { "\240", "(\240)([\144-\191])([\128-\191])([\128-\191])", "\1%1\1%2\1%3\1%4" },
  { nil, "([\241-\243])([\128-\191])([\128-\191])([\128-\191])", "\1%1\1%2\1%3\1%4" },
  { "\244", "(\244)([\128-\143])([\128-\191])([\128-\191])", "\1%1\1%2\1%3\1%4" },
}
-- What stands for a byte is made when it first comes: a submit command meets few of them.
local UNMARKED = setmetatable({}, {
  __index = function(made, bytes)
    made[bytes] = #bytes == 1 and "\239\191\189" or bytes:sub(2)
    return made[bytes]
  end,
})
local ESCAPES = setmetatable({ ["\n"] = "\\n", ['"'] = '\\"', ["\\"] = "\\\\" }, {
  __index = function(made, byte)
    made[byte] = byte:find("[%z\1-\31\127]") and ("\\u%04x"):format(byte:byte()) or false
    return made[byte]
  end,
})

-- The text with every byte that is not part of valid UTF-8 replaced: JSON must be UTF-8.  Control
-- characters of the text are escaped already.  Ten passes at most, none of which calls Lua: byte by
-- byte 64 KiB took 30 ms.
local function valid_utf8(text)
  if not text:find("[\128-\255]") then return text end
  for _, sequence in ipairs(SEQUENCES) do
    local lead, pattern, marked = sequence[1], sequence[2], sequence[3]
    if not lead or text:find(lead, 1, true) then text = text:gsub(pattern, marked) end
  end
  return (text:gsub(MARK .. "?[\128-\255]", UNMARKED))
end

local function quoted(text)
  -- All but printable ASCII without quote and backslash; most characters are in the first range.
  return '"' .. valid_utf8((text:gsub("[^^-~ #-[!%]]", ESCAPES))) .. '"'
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
