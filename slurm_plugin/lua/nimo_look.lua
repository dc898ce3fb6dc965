--- How large the files are that a submission names, as its user sees them.
--
-- Where a file system hangs, a process that asks it anything hangs too, and cannot be ended.  So a
-- child looks (nimo_files.lua), and sbatch waits for it only as long as files keep coming: for any one
-- of them a twentieth of `inputs_ms`, for a list of a folder a tenth, for all of them `inputs_ms`.
-- What is not there by then is left, all of it.
-- The child holds nothing of sbatch's open, such as the pipe of a `$(sbatch ...)`.
--
-- Lua 5.1 to 5.4, luaposix (without it nothing is looked at).

local KINDS, MOST_SCRIPT = 4, 16 * 1024
local PAUSE_S = 60 -- for which nothing is looked at once a file system was slow

local M = {}

-- A module of luaposix; nil without it.  The first that is loaded says in which folder they are:
-- others are looked for there alone, and not in all folders of Lua modules.
local place_of_posix
local function posix(name)
  local path, cpath = package.path, package.cpath
  local ok, module
  package.path = ""
  for template in (place_of_posix or cpath):gmatch("[^;]+") do
    package.cpath = template
    ok, module = pcall(require, "posix." .. name)
    if ok then
      place_of_posix = template
      break
    end
  end
  package.path, package.cpath = path, cpath
  if not ok then ok, module = pcall(require, "posix." .. name) end -- some releases have a part in Lua
  return ok and module or nil
end

-- What the child does; it does not come back.
local function answer(unistd, dirent, writer, mark, look)
  local open = {}
  pcall(function()
    collectgarbage("stop")
    local function write(text) unistd.write(writer, text) end
    for name in dirent.files("/proc/self/fd") do open[#open + 1] = tonumber(name) end
    for _, number in ipairs(open) do if number ~= writer then unistd.close(number) end end
    write(".\n")
    look(write)
    if mark then os.remove(mark) end -- it was only late
  end)
  unistd._exit(0)
end

-- All that a child writes; nil where it falls silent, or takes long.
local function read_all(unistd, time, reader, wait_s)
  local function now()
    local at = time.clock_gettime(time.CLOCK_MONOTONIC)
    return at.tv_sec + at.tv_nsec / 1e9
  end
  local begun = now()
  -- It takes a while until the child begins.
  local until_s, late, texts = begun + wait_s / 10, false, {}
  while true do
    local text = unistd.read(reader, 16384)
    if text == "" or late and not text then return nil end -- it ended, or says nothing
    local at = now()
    if text then
      local silent_s = text:sub(-2) == ",\n" and wait_s / 10 or wait_s / 20
      until_s, texts[#texts + 1] = math.min(at + silent_s, begun + wait_s), text
      if text:sub(-2) == "!\n" then return table.concat(texts) end
    end
    -- What was said meanwhile is read before it counts as silence: a busy machine is slow to go on.
    late = at > until_s
    if not late and not text then time.nanosleep({ tv_sec = 0, tv_nsec = 10000 }) end
  end
end

--- Sizes as `sacct_ingest.runs.input_sizes` writes them, of lines `kind=files=bytes`; "" for none.
function M.sizes_text(lines)
  local files, kinds, listed = 0, {}, {}
  for kind, number, bytes in lines:gmatch("([%w]*)=(%d+)=(%d+)\n") do
    files, kinds[kind] = files + tonumber(number), (kinds[kind] or 0) + tonumber(bytes)
  end
  if files == 0 then return "" end
  for kind in pairs(kinds) do if kind ~= "" then listed[#listed + 1] = kind end end
  table.sort(listed, function(a, b)
    if kinds[a] ~= kinds[b] then return kinds[a] > kinds[b] end
    return a < b
  end)
  local text, rest = ("%d"):format(files), kinds[""]
  for place, kind in ipairs(listed) do
    if place <= KINDS then
      text = ("%sK%s=%.0f"):format(text, kind, kinds[kind])
    else
      rest = (rest or 0) + kinds[kind]
    end
  end
  return rest and ("%sK=%.0f"):format(text, rest) or text
end

-- The file that says until when nothing is looked at; nil where there is no folder for it that
-- nobody else writes to and no network is asked about.
local function pause_file(getenv)
  local folder = getenv("XDG_RUNTIME_DIR")
  return folder and folder ~= "" and folder .. "/nimo-inputs-pause"
end

local function pauses(path)
  local file = path and io.open(path)
  local until_s = file and tonumber(file:read(16) or "")
  if file then file:close() end
  local left_s = (until_s or 0) - os.time()
  return left_s > 0 and left_s <= PAUSE_S
end

local function pause(path)
  local file = path and io.open(path, "w")
  if file then file:write(("%d"):format(os.time() + PAUSE_S)) file:close() end
end

-- Sizes of these files, "" where there are none or it takes too long.
function M.sizes(paths, wait_s, getenv)
  local mark = pause_file(getenv)
  if #paths == 0 or pauses(mark) then return "" end
  -- All of them here: what is loaded after a fork takes longer, in the child and in its parent.
  local unistd, fcntl, time = posix("unistd"), posix("fcntl"), posix("time")
  local stat, dirent = posix("sys.stat"), posix("dirent")
  if not (unistd and fcntl and time and stat and dirent) then return "" end
  local look = require("nimo_files").look
  local reader, writer = unistd.pipe()
  if not reader then return "" end
  fcntl.fcntl(reader, fcntl.F_SETFL, fcntl.O_NONBLOCK)
  local child = unistd.fork()
  if child == 0 then
    answer(unistd, dirent, writer, mark, function(write)
      look(paths, stat, dirent, unistd.chdir, write)
    end)
  end
  unistd.close(writer)
  local lines = child and read_all(unistd, time, reader, wait_s)
  unistd.close(reader)
  if lines then return M.sizes_text(lines) end
  pause(mark)
  return ""
end

-- Text of a script that its user may not write, which sbatch has read a moment ago.
local function text_of_others(path)
  local stat = posix("sys.stat")
  local status = stat and stat.stat(path)
  local file = status and stat.S_ISREG(status.st_mode) ~= 0 and io.open(path, "rb")
  local text = file and file:read(MOST_SCRIPT)
  if file then file:close() end
  return text
end

local function words_after_script(options)
  local words = {}
  for place = 2, options.argv and #options.argv or 0 do words[#words + 1] = options.argv[place] end
  return words
end

-- What Slurm says of options that are not set.
local UNSET = { unset = true, ["(null)"] = true, ["invalid-context"] = true, Unknown = true }

local function text(value) return type(value) == "string" and not UNSET[value] and value or "" end

-- Whether the user, or the place where the command runs, wants nothing looked at.  Inside a job a
-- child that hangs would keep its node from being cleaned up.
local function is_off(options, getenv)
  local tag = text(options.comment):match("nimo:(%S*)") or ""
  return options.type ~= "sbatch" or getenv("SLURM_JOB_ID") or getenv("NIMO_INPUTS") == "off"
    or ("," .. tag .. ","):find(",inputs=off,", 1, true)
end

--- Sizes of the files that a command of sbatch names, as text; "" where there are none.
-- @param wait_s for which it may wait
-- @param getenv os.getenv
function M.of(options, wait_s, getenv)
  if is_off(options, getenv) then return "" end
  local path, script = options.argv and options.argv[1], text(options.wrap)
  if path then script = require("nimo_script")(path, MOST_SCRIPT) or text_of_others(path) or "" end
  local folder = text(options.chdir)
  if folder == "" then folder = getenv("PWD") or "" end
  if folder:sub(1, 1) ~= "/" then return "" end
  local words = words_after_script(options)
  local named = require("nimo_words")(words, script, folder, text(options.input), getenv)
  return M.sizes(named, wait_s, getenv)
end

return M
