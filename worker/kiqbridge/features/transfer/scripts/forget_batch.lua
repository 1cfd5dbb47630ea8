#!lua flags=allow-oom
-- Forget a batch that an export has moved, unless a pending member of it is here.
-- KEYS 1 the batch (hash), 2 its members (hash), 3 the batches (sorted set), 4 cancelled batches (sorted set)
-- ARGV 1 its id
-- Returns 1, or 0: it stays, or there is none.
-- Repeated: 0.
-- See docs/how_to/batches.md.
-- include wrong_type
local refused = wrong_type(KEYS[1], 'hash') or wrong_type(KEYS[3], 'zset') or wrong_type(KEYS[4], 'zset')
if refused then
  return refused
end
local read = redis.call('HMGET', KEYS[1], 'sealed', 'pending', 'away')
if not read[1] or tonumber(read[2] or 0) > tonumber(read[3] or 0) then
  return 0
end
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('ZREM', KEYS[4], ARGV[1])
return redis.call('DEL', KEYS[1], KEYS[2]) > 0 and 1 or 0
