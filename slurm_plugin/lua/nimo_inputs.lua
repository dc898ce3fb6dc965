--- Lines of input files in the job's folder that say how many tasks it runs with.
--
-- cli_filter runs as the user who submits, so that nimod need not read users' files.  The patterns
-- are those of nimo-advise (slurm_plugin/cli/sbatch_request.py).
--
-- Lua 5.1 to 5.4.

local MAX_BYTES = 64 * 1024
local FILES = {
  { "system/decomposeParDict", { "numberOfSubdomains[ \t]+%d+" } },
  { "INCAR", { "KPAR[ \t]*=[ \t]*%d+", "NPAR[ \t]*=[ \t]*%d+", "NCORE[ \t]*=[ \t]*%d+" } },
}

--- These lines, "" where there are none.
-- @param folder of the job
-- @param text_of gives the text of a file, nil where it cannot be read; see nimo_script.lua
return function(folder, text_of)
  local lines = {}
  for _, one in ipairs(FILES) do
    local text = text_of(folder .. "/" .. one[1], MAX_BYTES) or ""
    for line in text:gmatch("[^\n]+") do
      for _, pattern in ipairs(one[2]) do lines[#lines + 1] = line:match("^[ \t]*(" .. pattern .. ")") end
    end
  end
  return table.concat(lines, "\n")
end
