-- Note a queue that is at its limit, once, as {name, length}.
local function too_deep(noted, list, name, limit)
  local length = redis.call('LLEN', list)
  if length < tonumber(limit) then
    return
  end
  for _, each in ipairs(noted) do
    if each[1] == name then
      return
    end
  end
  noted[#noted + 1] = {name, length}
end
