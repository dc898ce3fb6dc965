--- Sizes of files, of those in folders and of those that patterns stand for, as their user sees them.
--
-- It may hang with a file system: nimo_look.lua has a child do it.  The rules are those of
-- nimo-advise (sacct_ingest/files/looked_at.py and name_patterns.py).
--
-- Lua 5.1 to 5.4, luaposix.

local MOST_OF_FOLDER, HEARTBEAT = 1000, 32
local PACKED = { gz = true, bz2 = true, xz = true, zst = true, bgz = true, lz4 = true, z = true }
-- Modes of plain files: to call S_ISREG for each takes a tenth longer.
local REGULAR, BEHIND_REGULAR = 0x8000, 0x9000
local POINT = ("."):byte()
local CHARACTER = "[%z\1-\127\192-\255][\128-\191]*"

local M = {}

local Looking = {}
Looking.__index = Looking

--- Kind of a file by its name, "" where it has none.
function M.kind_of(path)
  local name = (path:match("^.*/(.*)$") or path):lower()
  local function known(ending) return #ending <= 8 and ending:find("^[a-z0-9]+$") and ending:find("%a") end
  local rest, last = name:match("^([^.].*)%.([^.]*)$")
  if not rest or not known(last) then return "" end
  if not PACKED[last] then return last end
  local before = rest:match("%.([^.]*)$")
  if not before then return last end
  return known(before) and before .. "D" .. last or ""
end

local function is_pattern(name) return name:find("[*?]") ~= nil end

-- Names in a folder; nil where they are too many.  Raises where it cannot be listed.
function Looking:list(path)
  local names, count = {}, 0
  self.write(",\n")
  for name in self.files_of(path) do
    if name ~= "." and name ~= ".." then
      count = count + 1
      names[count] = name
      if count > MOST_OF_FOLDER then return nil end
      if count % (4 * HEARTBEAT) == 0 then self.write(".\n") end
    end
  end
  self.write(".\n")
  return names
end

-- The same, once for each folder; an empty list where it cannot be listed.
function Looking:listed(path)
  local known = self.folders[path]
  if known == nil then
    local ok, names = pcall(self.list, self, path)
    known = ok and (names or false) or {}
    self.folders[path] = known
  end
  return known or nil
end

-- A line for all plain files of these names in a folder; "" where there are none.
function Looking:sum(folder, names, kind)
  if not (names and self.chdir(folder)) then return "" end -- short names take half the time
  local stat, files, bytes = self.stat, 0, 0
  for place = 1, #names do
    local status = stat(names[place])
    local mode = status and status.st_mode or 0
    if mode >= REGULAR and mode < BEHIND_REGULAR then
      files, bytes = files + 1, bytes + status.st_size
    end
    if place % HEARTBEAT == 0 then self.write(".\n") end
  end
  return files > 0 and ("%s=%d=%.0f\n"):format(kind, files, bytes) or ""
end

-- What is between the asterisks of a part of a pattern, as patterns of Lua: the first one for where a
-- name begins, the last one for where it ends.
local function pieces(part)
  local made = {}
  for piece in (part .. "*"):gmatch("([^*]*)%*") do
    made[#made + 1] = piece:gsub("[^%w?]", "%%%0"):gsub("?", (CHARACTER:gsub("%%", "%%%%")))
  end
  made[1] = "^" .. made[1]
  made[#made] = (#made > 1 and "^.*" or "") .. made[#made] .. "$"
  return made
end

-- Whether a name is one of those that a part of a pattern stands for.  Of each piece the first place
-- counts, so that it takes time in proportion to the name's length.
local function fits(name, made, hidden)
  if name:byte() == POINT and not hidden then return false end
  local at = 0
  for place = 1, #made do
    local _, last = name:find(made[place], at + 1)
    if not last then return false end
    at = last
  end
  return true
end

-- Names in a folder that a part of a pattern stands for.
function Looking:fitting(names, part)
  local made, hidden, found = pieces(part), part:byte() == POINT, {}
  for place, name in ipairs(names) do
    if fits(name, made, hidden) then found[#found + 1] = name end
    if place % (4 * HEARTBEAT) == 0 then self.write(".\n") end
  end
  return found
end

-- Folders that the parts of a path stand for, before its last one, and how many names were listed;
-- nil where these are too many.
function Looking:folders_of(parts)
  local folders, count = { "" }, 0
  for place = 1, #parts - 1 do
    local found = {}
    for _, folder in ipairs(folders) do
      local names = { parts[place] }
      if is_pattern(parts[place]) then
        local all = self:listed(folder)
        count = count + (all and #all or MOST_OF_FOLDER + 1)
        if count > MOST_OF_FOLDER then return nil end
        names = self:fitting(all, parts[place])
      end
      for _, name in ipairs(names) do found[#found + 1] = folder .. "/" .. name end
    end
    folders = found
  end
  return folders, count
end

-- Lines for the files that a pattern stands for.
function Looking:pattern(path, kind)
  local parts = {}
  for part in path:gmatch("[^/]+") do parts[#parts + 1] = part end
  local last, lines = parts[#parts], {}
  local folders, count = self:folders_of(parts)
  local chosen = {}
  for place, folder in ipairs(folders or {}) do
    chosen[place] = { last }
    if is_pattern(last) then
      local all = self:listed(folder)
      count = count + (all and #all or MOST_OF_FOLDER + 1)
      if count > MOST_OF_FOLDER then return "" end
      chosen[place] = self:fitting(all, last)
    end
  end
  for place, names in ipairs(chosen) do lines[place] = self:sum(folders[place], names, kind) end
  return table.concat(lines)
end

-- A line for what a name stands for.
function Looking:line(path)
  local kind = M.kind_of(path)
  if is_pattern(path) then return self:pattern(path, kind) end
  local status = self.stat(path)
  if not status then return "" end
  if status.st_mode >= REGULAR and status.st_mode < BEHIND_REGULAR then
    return ("%s=1=%.0f\n"):format(kind, status.st_size)
  end
  if self.is_folder(status.st_mode) == 0 then return "" end
  self.write(".\n")
  return self:sum(path, self:list(path), "")
end

--- Write what there is of each path, `kind=files=bytes`; a line `.` says that it goes on to ask, `,`
-- that it lists a folder, `!` that this was all.
-- @param stat, dirent, chdir modules of luaposix, and what changes the folder of this process
function M.look(paths, stat, dirent, chdir, write)
  local looking = setmetatable({
    stat = stat.stat, is_folder = stat.S_ISDIR, files_of = dirent.files, chdir = chdir,
    write = write, folders = {},
  }, Looking)
  for _, path in ipairs(paths) do
    local ok, line = pcall(looking.line, looking, path)
    write((ok and line or "") .. ".\n")
  end
  write("!\n")
end

return M
