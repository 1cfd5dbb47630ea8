#!lua flags=allow-oom
-- Take one place of a window limiter: at most so many within any interval of that length, which ends now.
-- KEYS 1 times of the last ones (list, newest first, microseconds)
-- ARGV 1 limit, 2 interval (microseconds)
-- Returns {1, 0}, or {0, microseconds until there is a place}.
-- Repeated: takes another place; then there are fewer within the interval than the limit allows, never more.
-- See docs/how_to/limiters.md.
-- include limit_now
local now, limit, interval = limit_now(), tonumber(ARGV[1]), tonumber(ARGV[2])
local newest = tonumber(redis.call('LINDEX', KEYS[1], 0) or 0)
if newest > now + interval then
  redis.call('DEL', KEYS[1]) -- another server's clock, far ahead: nothing could be taken until then
end
local last = tonumber(redis.call('LINDEX', KEYS[1], limit - 1) or 0)
if last > now - interval then
  return {0, last + interval - now}
end
redis.call('LPUSH', KEYS[1], whole(now))
redis.call('LTRIM', KEYS[1], 0, limit - 1)
redis.call('PEXPIRE', KEYS[1], math.ceil(interval / 1000))
return {1, 0}
