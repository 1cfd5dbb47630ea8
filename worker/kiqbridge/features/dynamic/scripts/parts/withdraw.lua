-- Take back the jobs of a dynamic schedule's occurrences that were placed ahead: those whose jobs are all in
-- `schedule` still. An occurrence of which a job was promoted has fired, and stays in the ledger. `wanted` says
-- of an instant whether it is to be taken back. Returns how many were, and the first instant of them.
local function withdraw(placed, schedule, ledger, wanted)
  local found = redis.call('ZRANGE', placed, 0, -1, 'WITHSCORES')
  local texts, order = {}, {}
  for i = 1, #found, 2 do
    local instant = found[i + 1]
    if wanted(instant) then
      if not texts[instant] then
        texts[instant] = {}
        order[#order + 1] = instant
      end
      texts[instant][#texts[instant] + 1] = found[i]
    end
  end
  local count, first = 0, nil
  for _, instant in ipairs(order) do
    local waits = true
    for _, text in ipairs(texts[instant]) do
      waits = waits and redis.call('ZSCORE', schedule, text)
    end
    for _, text in ipairs(texts[instant]) do
      if waits then
        redis.call('ZREM', schedule, text)
      end
      redis.call('ZREM', placed, text)
    end
    if waits then
      redis.call('ZREMRANGEBYSCORE', ledger, instant, instant)
      count = count + 1
      first = first or instant
    end
  end
  return count, first
end
-- Set a cursor: to an instant, or, with 'back', to before the first occurrence that was withdrawn.
local function set_cursor(cursors, name, cursor, first)
  if cursor == 'back' then
    cursor = first and string.format('%.0f', tonumber(first) - 1) or ''
  end
  if cursor ~= '' then
    redis.call('HSET', cursors, name, cursor)
  end
end
