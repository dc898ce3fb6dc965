--- Requests to nimod as JSON, and its answers as tables.
--
-- Of our own, because the repositories of EL have no dkjson.
--
-- Lua 5.1 to 5.4.

-- Decoding: each function gets the text and where its value begins, and gives the value and where
-- the text goes on; nil instead of the latter where there is no such value.

local MAX_DEPTH = 32 -- nothing that we read is deeper than four
local MAX_VALUES = 1000 -- of a text; answers have a hundred
local values_left
local PLAIN = {
  ['"'] = '"', ["\\"] = "\\", ["/"] = "/", b = "\b", f = "\f", n = "\n", r = "\r", t = "\t",
}

-- UTF-8 of a code point; halves of a pair that stand alone become three bytes, too.
local function utf8_of(code)
  if code < 0x80 then return string.char(code) end
  local function low(shift) return 0x80 + math.floor(code / shift) % 0x40 end
  if code < 0x800 then return string.char(0xC0 + math.floor(code / 0x40), low(1)) end
  if code < 0x10000 then
    return string.char(0xE0 + math.floor(code / 0x1000), low(0x40), low(1))
  end
  return string.char(0xF0 + math.floor(code / 0x40000), low(0x1000), low(0x40), low(1))
end

local function unit(text, at) return tonumber(text:match("^u(%x%x%x%x)", at) or "", 16) end

-- What an escape stands for; `at` is behind the backslash.
local function escaped(text, at)
  local plain = PLAIN[text:sub(at, at)]
  if plain then return plain, at + 1 end
  local code = unit(text, at)
  if not code then return nil, nil end
  local second = code >= 0xD800 and code < 0xDC00 and text:sub(at + 5, at + 5) == "\\"
    and unit(text, at + 6)
  if second and second >= 0xDC00 and second < 0xE000 then
    return utf8_of(0x10000 + (code - 0xD800) * 0x400 + second - 0xDC00), at + 11
  end
  return utf8_of(code), at + 5
end

local function string_at(text, at)
  local from = at + 1
  local stop = text:find('["\\]', from)
  if stop and text:sub(stop, stop) == '"' then return text:sub(from, stop - 1), stop + 1 end
  local pieces = {}
  while true do
    stop = text:find('["\\]', from)
    if not stop then return nil, nil end
    pieces[#pieces + 1] = text:sub(from, stop - 1)
    if text:sub(stop, stop) == '"' then return table.concat(pieces), stop + 1 end
    pieces[#pieces + 1], from = escaped(text, stop + 1)
    if not from then return nil, nil end
  end
end

local function number_at(text, at)
  local digits = text:match("^-?%d+", at)
  if not digits or digits:find("^-?0%d") then return nil, nil end
  local stop = at + #digits
  stop = stop + #(text:match("^%.%d+", stop) or "")
  stop = stop + #(text:match("^[eE][+-]?%d+", stop) or "")
  return tonumber(text:sub(at, stop - 1)), stop
end

-- Behind white space: nimod sends none.
local function skip(text, at)
  if (text:byte(at) or 0) > 32 then return at end
  return text:match("^[ \t\r\n]*()", at)
end

local value_at

local function list_at(text, at, depth)
  local list, count, value = {}, 0, nil
  at = skip(text, at + 1)
  if text:sub(at, at) == "]" then return list, at + 1 end
  while true do
    value, at = value_at(text, at, depth)
    if not at then return nil, nil end
    count = count + 1
    list[count] = value
    at = skip(text, at)
    local mark = text:sub(at, at)
    if mark == "]" then return list, at + 1 end
    if mark ~= "," then return nil, nil end
    at = at + 1
  end
end

local function object_at(text, at, depth)
  local object, key, value = {}, nil, nil
  at = skip(text, at + 1)
  if text:sub(at, at) == "}" then return object, at + 1 end
  while true do
    at = skip(text, at)
    if text:sub(at, at) ~= '"' then return nil, nil end
    key, at = string_at(text, at)
    at = at and skip(text, at)
    if not at or text:sub(at, at) ~= ":" then return nil, nil end
    value, at = value_at(text, at + 1, depth)
    if not at then return nil, nil end
    object[key] = value
    at = skip(text, at)
    local mark = text:sub(at, at)
    if mark == "}" then return object, at + 1 end
    if mark ~= "," then return nil, nil end
    at = at + 1
  end
end

local WORDS = { ["true"] = true, ["false"] = false, null = nil }
local KINDS = { ['"'] = string_at, ["["] = list_at, ["{"] = object_at }

function value_at(text, at, depth)
  values_left = values_left - 1
  if values_left < 0 then return nil, nil end
  at = skip(text, at)
  local kind = KINDS[text:sub(at, at)]
  if kind then
    if depth == 0 then return nil, nil end
    return kind(text, at, depth - 1)
  end
  local word = text:match("^%l+", at)
  if not word then return number_at(text, at) end
  if WORDS[word] == nil and word ~= "null" then return nil, nil end
  return WORDS[word], at + #word
end

--- The table that a text in JSON stands for; nil for anything else, and for too many values.  What is
-- null is absent.
local function decode(text)
  values_left = MAX_VALUES
  local value, at = value_at(text, 1, MAX_DEPTH)
  return at and skip(text, at) > #text and type(value) == "table" and value or nil
end

return { encode = require("nimo_encode").encode, decode = decode }
