#!lua flags=allow-oom
-- Move due jobs from a sorted set to their queues. A job that somebody else has moved, deleted or
-- rescheduled in the meantime is skipped.
-- KEYS 1 sorted set, 2 names of queues (set), 3… for each job its queue list
-- ARGV 1 now (score), then for each job: member as read, text to push ('' = drop it: stopped by
--      middleware), queue name
-- Answers how many left the set.
local now = tonumber(ARGV[1])
local moved = 0
for i = 1, #KEYS - 2 do
  local member, text, name = ARGV[3 * i - 1], ARGV[3 * i], ARGV[3 * i + 1]
  local score = redis.call('ZSCORE', KEYS[1], member)
  if score and tonumber(score) <= now then
    local pushed = text == '' and 1 or redis.pcall('LPUSH', KEYS[i + 2], text)
    if type(pushed) == 'number' then
      if text ~= '' then
        redis.call('SADD', KEYS[2], name)
      end
      redis.call('ZREM', KEYS[1], member)
      moved = moved + 1
    end
  end
end
return moved
