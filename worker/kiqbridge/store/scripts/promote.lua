#!lua flags=allow-oom
-- Move due jobs from a sorted set to their queues. A job that another client has moved, deleted or
-- rescheduled in the meantime is skipped, and so are those whose queue is not a list.
-- KEYS 1 sorted set, 2 names of queues (set), 3… queue lists
-- ARGV 1 now (score), then for each queue list: the queue's name, number n of its jobs, n members as
--      read, n texts to push in their place; at last the members to remove (stopped by middleware)
-- Returns how many left the set.
-- Repeated: moves only what is still in the set and still due.
-- See reliability §10, protocol §9.1.
-- include wrong_type
-- include enqueue
local refused = wrong_type(KEYS[2], 'set')
if refused then
  return refused
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
  if not wrong_type(KEYS[i], 'list') then
    local members, texts = still_due(first, n)
    if #members > 0 then
      enqueue(KEYS[2], name, KEYS[i], unpack(texts))
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
