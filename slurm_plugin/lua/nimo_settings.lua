--- nimo_hook.conf, which both hooks go by.  Small, because each sbatch loads it.
--
-- Lua 5.1 to 5.4.

local M = {}

M.MAX_TIMEOUT_MS = 100 -- submissions are serial: each would wait for all before it
local MOST = { -- that no setting lifts
  timeout_ms = M.MAX_TIMEOUT_MS,
  max_script_bytes = 128 * 1024, -- nimod takes no longer ones
  least_limit_share = 1,
  least_memory_share = 1,
  inputs_ms = M.MAX_TIMEOUT_MS,
}

M.DEFAULTS = {
  socket = "/run/nimo/nimod.sock",
  timeout_ms = 20,
  kill_switch = "/etc/nimo/off",
  breaker_failures = 3,
  breaker_s = 30,
  max_script_bytes = 64 * 1024,
  forward_deadline = false,
  rewrite_in_cli_filter = false,
  ask_ahead = false,
  look_at_inputs = false,
  inputs_ms = 5,
  allow_refusal = false,
  allow_sizes = false,
  least_limit_share = 0.05,
  least_memory_share = 0.05,
  least_memory_mib = 256,
}

local function convert(text, default)
  if type(default) == "number" then
    local number = tonumber(text)
    return number and number > 0 and number < math.huge and number or nil
  elseif type(default) == "boolean" then
    return ({ yes = true, no = false })[text]
  end
  return text ~= "" and text or nil
end

-- Whether a value has to give way to a limit that no setting lifts.
local function capped(settings, key, most)
  if settings[key] <= most then return false end
  settings[key] = most
  return true
end

--- Read `key = value` lines; a bad line leaves its default standing.
-- @return settings, and what is wrong with the file as a list of texts
function M.read(path)
  local settings, complaints = {}, {}
  for key, default in pairs(M.DEFAULTS) do settings[key] = default end
  local file = io.open(path)
  if not file then return settings, complaints end
  local number = 0
  for line in file:lines() do
    number = number + 1
    local key, text = line:match("^%s*([%w_]+)%s*=%s*(.-)%s*$")
    local value
    if key and M.DEFAULTS[key] ~= nil then value = convert(text, M.DEFAULTS[key]) end
    if value ~= nil then
      settings[key] = value
    elseif line:match("^%s*[^%s#]") then
      complaints[#complaints + 1] = path .. ":" .. number .. ": not understood: " .. line
    end
  end
  file:close()
  for key, most in pairs(MOST) do
    if capped(settings, key, most) then
      complaints[#complaints + 1] = path .. ": " .. key .. " is " .. most .. " at most"
    end
  end
  return settings, complaints
end

--- Whether the site has switched all of this off.
function M.switched_off(settings)
  local file = io.open(settings.kill_switch)
  if file then file:close() end
  return file ~= nil
end

return M
