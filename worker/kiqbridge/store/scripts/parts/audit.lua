-- include wrong_type
-- The audit log: an entry for each action of an operator, and how many jobs it was done to. An action of many
-- batches is one entry, whose count is kept with the number of the last batch: `COUNT BATCH`.
local MOST_ENTRIES = 10000
local function noted(counts, id)
  local count, batch = string.match(redis.call('HGET', counts, id) or '', '^(%d+) (%d+)$')
  return tonumber(count) or 0, tonumber(batch) or 0
end
-- Add what a batch has done; an action that has done nothing leaves no entry. Returns the count of all batches.
local function note(log, entries, counts, id, batch, at, entry, done)
  local count = noted(counts, id)
  if done == 0 then
    return count
  end
  redis.call('HSET', counts, id, string.format('%.0f %s', count + done, batch))
  if redis.call('HSETNX', entries, id, entry) == 1 then
    redis.call('ZADD', log, at, id)
    local over = redis.call('ZCARD', log) - MOST_ENTRIES
    if over > 0 then
      over = redis.call('ZRANGE', log, 0, math.min(over, 100) - 1)
      redis.call('HDEL', entries, unpack(over))
      redis.call('HDEL', counts, unpack(over))
      redis.call('ZREM', log, unpack(over))
    end
  end
  return count + done
end
local function wrong_audit(log, entries, counts)
  return wrong_type(log, 'zset') or wrong_type(entries, 'hash') or wrong_type(counts, 'hash')
end
