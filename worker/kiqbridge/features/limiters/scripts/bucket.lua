#!lua flags=allow-oom
-- Take one place of a bucket limiter: at most so many in each interval; intervals follow each other, and the first
-- one begins with the epoch.
-- KEYS 1 the interval's start in microseconds and how many were taken in it (string, START COUNT)
-- ARGV 1 limit, 2 interval (microseconds)
-- Returns {1, 0}, or {0, microseconds until the next interval}.
-- Repeated: takes another place; then there are fewer in the interval than the limit allows, never more.
-- See docs/how_to/limiters.md.
-- include limit_now
local now, interval = limit_now(), tonumber(ARGV[2])
local start = now - now % interval
local known, count = string.match(redis.call('GET', KEYS[1]) or '', '^(%d+) (%d+)$')
count = known == whole(start) and tonumber(count) or 0
if count >= tonumber(ARGV[1]) then
  return {0, start + interval - now}
end
local left_ms = math.ceil((start + interval - now) / 1000)
redis.call('SET', KEYS[1], whole(start) .. ' ' .. whole(count + 1), 'PX', left_ms)
return {1, 0}
