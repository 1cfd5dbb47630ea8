#!lua flags=allow-oom
-- Move due jobs from a sorted set to their queues. A job that somebody else has moved, deleted or
-- rescheduled in the meantime is skipped, and so are those whose queue is no list.
-- KEYS 1 sorted set, 2 names of queues (set), 3… queue lists
-- ARGV 1 now (score), then for each queue list: the queue's name, number n of its jobs, n members as
--      read, n texts to push in their place; at last the members to drop (stopped by middleware)
-- Answers how many left the set.
local found = redis.call('TYPE', KEYS[2]).ok
if found ~= 'none' and found ~= 'set' then
  return redis.error_reply('WRONGTYPE ' .. KEYS[2] .. ' is a ' .. found .. ', not a set')
end
local now = tonumber(ARGV[1])

-- The members among n arguments from `first` on that are still due, and the texts n behind them.
local function still_due(first, n)
  local members, texts = {}, {}
  local scores = redis.call('ZMSCORE', KEYS[1], unpack(ARGV, first, first + n - 1))
  for i = 1, n do
    if scores[i] and tonumber(scores[i]) <= now then
      members[#members + 1] = ARGV[first + i - 1]
      texts[#texts + 1] = ARGV[first + i - 1 + n]
    end
  end
  return members, texts
end

local moved, next = 0, 2
for i = 3, #KEYS do
  local name, n, first = ARGV[next], tonumber(ARGV[next + 1]), next + 2
  next = first + 2 * n
  local kind = redis.call('TYPE', KEYS[i]).ok
  if kind == 'none' or kind == 'list' then
    local members, texts = still_due(first, n)
    if #members > 0 then
      redis.call('SADD', KEYS[2], name)
      redis.call('LPUSH', KEYS[i], unpack(texts))
      moved = moved + redis.call('ZREM', KEYS[1], unpack(members))
    end
  end
end
if next <= #ARGV then
  local members = still_due(next, #ARGV - next + 1)
  if #members > 0 then
    moved = moved + redis.call('ZREM', KEYS[1], unpack(members))
  end
end
return moved
