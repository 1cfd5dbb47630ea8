#!lua flags=allow-oom
-- Forget guards that are over by the server's clock.
-- KEYS 1 guards (hash), 2 when they are over (sorted set)
-- ARGV 1 how many at most
-- Answers how many were forgotten.
local now = redis.call('TIME')[1]
local over = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, ARGV[1])
if over[1] then
  redis.call('HDEL', KEYS[1], unpack(over))
  redis.call('ZREM', KEYS[2], unpack(over))
end
return #over
