#!lua
-- Put members of an export into a queue or set, and note how far its place is put in.
-- No allow-oom: with memory full it is refused as a whole before anything is written.
-- KEYS 1 queue (list) or set (zset), 2 how far the export was put in (hash), 3 queues (set)
-- ARGV 1 place, 2 how far it was before, '' = nothing, 3 how far it is then, 4 seconds to keep that,
--      5 name of the queue, '' = a set, 6… members, the next to leave first; of a set each after its score
-- Returns 1, or 0 if another process has put something of this place in: then nothing is written.
-- Repeated: 1, and nothing is written.
-- See docs/reference/command_line.md.
-- include wrong_type
local refused = wrong_type(KEYS[1], ARGV[5] ~= '' and 'list' or 'zset')
  or wrong_type(KEYS[2], 'hash')
  or wrong_type(KEYS[3], 'set')
if refused then
  return refused
end
local before = redis.call('HGET', KEYS[2], ARGV[1]) or ''
if before == ARGV[3] then
  return 1
end
if before ~= ARGV[2] then
  return 0
end
if ARGV[5] ~= '' then
  redis.call('SADD', KEYS[3], ARGV[5])
  redis.call('LPUSH', KEYS[1], unpack(ARGV, 6))
else
  redis.call('ZADD', KEYS[1], unpack(ARGV, 6))
end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
redis.call('EXPIRE', KEYS[2], ARGV[4])
return 1
