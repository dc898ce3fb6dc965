--- Which words of a submission may name files that its job reads.
--
-- The rules are those of nimo-advise (sacct_ingest/scripts/input_words.py); both are held against
-- tests/data/input-words.json.  Nothing is looked at here, and patterns (`data/*.bam`) stay as they are.
--
-- Lua 5.1 to 5.4.

local MOST, MOST_TEXT, LONGEST = 64, 16 * 1024, 1024

local function set(words)
  local made = {}
  for word in words:gmatch("%S+") do made[word] = true end
  return made
end

local BEFORE = set("export local readonly declare do then else time if")
local SILENT = set("echo printf mkdir rm rmdir touch chmod module ml source . set unset trap exit kill "
  .. "conda ulimit hostname")
local SYSTEM = set("dev proc sys usr bin sbin lib lib64 etc run")
local NAME = "^([A-Za-z_][A-Za-z0-9_]*)=(.*)$"

local Found = {}
Found.__index = Found

local function begins(text, start) return text:sub(1, #start) == start end

-- Whether the folder of the job is this one, or below it.  A pattern for all files of a folder counts
-- as that folder.
function Found:above(path)
  path = path:gsub("/[*?.]*[*?][*?.]*$", "")
  return begins(self.work_dir .. "/", path .. "/") or path:find("/%.%.?$") ~= nil
end

-- Add what a word names, parted by commas.
function Found:add(word)
  if #self.paths >= MOST or #word > MOST * LONGEST then return end
  for path in word:gmatch("[^,]+") do
    path = path:gsub("^file://", "")
    if begins(path, "~/") then path = (self.getenv("HOME") or "~") .. path:sub(2) end
    local none = #path > LONGEST or path:find("[$`%c]") or path:find("://", 1, true)
    if not none and path:find("[A-Za-z]") then
      if not begins(path, "/") then path = self.folder .. "/" .. path:gsub("^%./", "") end
      path = path:gsub("/+$", "")
      local first = path:match("^/([^/]*)") or ""
      local input = not (self:above(path) or SYSTEM[first] or first:find("[*?]"))
      if input and not self.known[path] and #self.paths < MOST then
        self.known[path] = true
        self.paths[#self.paths + 1] = path
      end
    end
  end
end

-- Whether an option names what is written.
local function writes(option)
  local name = option:gsub("^%-+", ""):lower()
  return name == "o" or begins(name, "out")
end

-- Add the words from a place on, and the values of options, but those that name what is written.
-- Of a text only those that look like a file's name.
function Found:add_arguments(words, from, of_text)
  local skip = false
  local function add(word)
    if not of_text or #word > 2 and (word:find("/", 1, true) or word:find("%.[A-Za-z]")) then
      self:add(word)
    end
  end
  for place = from, #words do
    local word = words[place]
    local name, value = word:match(NAME)
    if skip then
      skip = false
    elseif begins(word, "-") then
      local option, equals, own = word:match("^([^=]*)(=?)(.*)$")
      if writes(option) then skip = equals == "" elseif equals ~= "" then add(own) end
    elseif not name then
      add(word)
    elseif not begins(name:lower(), "out") then
      add(value)
    end
  end
end

local function unquoted(text) return (text:gsub("[\"']", ""):gsub("[<(){}%[%]`]", " ")) end

-- A text with the values of its variables, where they are known, and no quotes.
function Found:expanded(text)
  text = text:gsub("%${?([A-Za-z0-9_]+)}?", function(name)
    return self.own[name] or self.getenv(name) or "$"
  end)
  return unquoted(text)
end

local function words_of(text)
  local words = {}
  for word in text:gmatch("%S+") do words[#words + 1] = word end
  return words
end

-- Paths that follow begin in another folder.
function Found:enter(folder)
  if begins(folder, "/") then
    self.folder = folder:gsub("/+$", "")
  elseif not begins(folder, "~") then
    self.folder = self.folder .. "/" .. folder:gsub("^%./", ""):gsub("/+$", "")
  end
end

function Found:add_command(words)
  local at = 1
  while words[at] do
    local name, value = words[at]:match(NAME)
    if name then
      self.own[name] = value
      -- A folder is mostly the beginning of a path.
      local file = #value <= LONGEST and value:find("%.[A-Za-z][^/]*$")
      if file then self:add_arguments({ words[at] }, 1, true) end
    elseif not BEFORE[words[at]] then
      break
    end
    at = at + 1
  end
  if not words[at] or SILENT[words[at]] then return end
  if words[at] == "cd" then
    self:enter(words[at + 1] or "~")
  else
    self:add_arguments(words, at + 1, true)
  end
end

-- Add what Snakemake's plugin for Slurm has its job wait for, but files of its own; false: it is none.
function Found:add_awaited(line)
  local _, last = line:find("snakemake .* %-%-wait%-for%-files ")
  if not last then return false end
  for word in line:sub(last + 1):gmatch("([^ ]+) +") do
    if begins(word, "-") then break end
    for path in unquoted(word):gmatch("%S+") do
      if not path:find(".snakemake/", 1, true) then self:add(path) end
    end
  end
  return true
end

function Found:add_commands(line)
  if self:add_awaited(line) then return end
  line = line:gsub("[ \t]#.*", ""):gsub("&?>+[&|]?[ \t]*[^ \t;|&<>]*", " ")
  for command in line:gmatch("[^;|&]+") do self:add_command(words_of(self:expanded(command))) end
end

-- What Snakemake writes into a job's script.
function Found:add_properties(comment)
  if not begins(comment, "# properties = ") then return end
  for path in (comment:match('"input": %[([^%]]*)%]') or ""):gmatch('"([^"]*)"') do self:add(path) end
end

-- Add what the commands of a script name, and its here-documents.
function Found:add_text(text)
  local staged, here = text:find("nxf_stage", 1, true), ""
  for line in (text .. "\n"):gmatch("([^\n]*)\n") do
    if #self.paths >= MOST then return end
    line = line:match("^[ \t\r]*(.*)$"):match("^.*[^ \t\r]") or ""
    if staged then
      local path = line:match("ln %-s %-f ([^ ]+) ") or line:match("ln %-s ([^ ]+) ")
      if path then self:add(path) end
    elseif here ~= "" then
      if line == here then here = "" end
      self:add_arguments(words_of(self:expanded(line)), 1, true)
    elseif begins(line, "#") then
      self:add_properties(line)
    else
      here = line:match("<<%-?[ \t]*[\"']?([A-Za-z_][A-Za-z0-9_]*)") or ""
      self:add_commands(line)
    end
  end
end

--- The paths that may be input files, each once.
-- @param words arguments of the script
-- @param script its text, or the command that `--wrap` gives
-- @param work_dir folder of the job
-- @param standard_input what `--input` names; "" for nothing
-- @param getenv gives a variable of the client's environment
return function(words, script, work_dir, standard_input, getenv)
  local folder = work_dir:gsub("/+$", "")
  local found = setmetatable({
    paths = {}, known = {}, own = { SLURM_SUBMIT_DIR = folder, PWD = folder },
    work_dir = folder, folder = folder, getenv = getenv,
  }, Found)
  for place, word in ipairs(words) do found.own[tostring(place)] = word end
  found:add_arguments(words, 1)
  found:add(standard_input)
  -- Of an array of Snakemake's this is the command of the first task.
  if script:find("--slurm-jobstep-array-execs", 1, true) then return found.paths end
  found:add_text((script:sub(1, MOST_TEXT):gsub("\\\n", " ")))
  return found.paths
end
