--- Text of a batch script.  Opened for writing too, although nothing is written: to open a FIFO
-- for reading only would wait for a writer, and what has no size is not read.
--
-- Lua 5.1 to 5.4.

--- @return nil where it cannot be read
return function(path, most_bytes)
  local file = io.open(path, "r+b")
  if not file then return nil end
  local text = file:seek("end") and file:seek("set") and file:read(most_bytes) or nil
  file:close()
  return text
end
