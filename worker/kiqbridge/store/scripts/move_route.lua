#!lua flags=allow-oom
-- Change one entry of a hash, if it is as the caller has read it: on which shard a queue lies.
-- KEYS 1 routes (hash: queue → 'SHARD NUMBER')
-- ARGV 1 queue, 2 the entry as it was read, '' = none, 3 the new one, '' = none
-- Returns 1, or 0 if it is another one: then nothing is changed.
-- Repeated: 1.
-- See reliability §16.
local entry = redis.call('HGET', KEYS[1], ARGV[1]) or ''
if entry == ARGV[3] then
  return 1
end
if entry ~= ARGV[2] then
  return 0
end
if ARGV[3] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
end
return 1
