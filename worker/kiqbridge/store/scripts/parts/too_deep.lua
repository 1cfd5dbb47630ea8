-- Note job number `job` as {job, length} if its queue is at its limit, a text ('' = it has none).
local function too_deep(noted, job, list, limit)
  local length = limit ~= '' and redis.call('LLEN', list)
  if length and length >= tonumber(limit) then
    noted[#noted + 1] = {job, length}
  end
end
