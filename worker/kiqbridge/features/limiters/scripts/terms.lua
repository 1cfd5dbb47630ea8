#!lua flags=allow-oom
-- Note which limiters are in use, with their limits, and forget those that are not; of too many the first to go.
-- KEYS 1 limiters (sorted set: KIND NAME -> when it is forgotten), 2 their limits (hash: KIND NAME -> LIMIT PER)
-- ARGV 1 seconds to remember one, 2 how many at most, then name and limits of each
-- Returns how many were forgotten.
-- Repeated: nothing more.
-- See docs/how_to/limiters.md.
-- include wrong_type
local refused = wrong_type(KEYS[1], 'zset') or wrong_type(KEYS[2], 'hash')
if refused then
  return refused
end
local now = tonumber(redis.call('TIME')[1])
for i = 3, #ARGV, 2 do
  redis.call('ZADD', KEYS[1], now + ARGV[1], ARGV[i])
  redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1])
end
local over = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 1000)
if #over == 0 then
  local surplus = math.min(redis.call('ZCARD', KEYS[1]) - ARGV[2], 1000)
  over = surplus > 0 and redis.call('ZRANGE', KEYS[1], 0, surplus - 1) or over
end
for _, name in ipairs(over) do
  redis.call('ZREM', KEYS[1], name)
  redis.call('HDEL', KEYS[2], name)
end
return #over
