#!lua flags=allow-oom
-- Note of pending members of a batch that an export moves them to another server, or that they are back.
-- KEYS 1 the batch (hash), 2 its members (hash)
-- ARGV 1 their state (p: they are here, m: moved away), 2 the new one, 3... members
-- Returns how many of its members are away then; 0 if there is no such batch.
-- Repeated: changes nothing.
-- See docs/how_to/batches.md.
-- include wrong_type
local refused = wrong_type(KEYS[1], 'hash') or wrong_type(KEYS[2], 'hash')
if refused then
  return refused
end
if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
local changed = 0
for i = 3, #ARGV do
  if redis.call('HGET', KEYS[2], ARGV[i]) == ARGV[1] then
    redis.call('HSET', KEYS[2], ARGV[i], ARGV[2])
    changed = changed + 1
  end
end
return redis.call('HINCRBY', KEYS[1], 'away', ARGV[2] == 'm' and changed or -changed)
