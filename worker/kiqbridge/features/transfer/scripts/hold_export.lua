#!lua flags=allow-oom
-- Move the members of a queue or set that leave it next into the list of the export, as they are.
-- KEYS 1 queue (list) or set (zset), 2 what an export holds (list)
-- ARGV 1 first member of that list: which export, chunk and place, 2 'queue' or 'set', 3 how many at most
-- Returns how many were moved; 0 if there is nothing, or if an export holds something already.
-- Repeated: 0, the list is there; its first member says whose it is.
-- See docs/reference/command_line.md.
if redis.call('EXISTS', KEYS[2]) == 1 then
  return 0
end
local count = tonumber(ARGV[3])
local found
if ARGV[2] == 'queue' then
  found = redis.call('LRANGE', KEYS[1], -count, -1)
else
  found = redis.call('ZRANGE', KEYS[1], 0, count - 1, 'WITHSCORES')
end
if #found == 0 then
  return 0
end
redis.call('RPUSH', KEYS[2], ARGV[1])
if ARGV[2] == 'queue' then
  for i = #found, 1, -1 do
    redis.call('RPUSH', KEYS[2], found[i])
  end
  redis.call('LTRIM', KEYS[1], 0, -#found - 1)
  return #found
end
for i = 1, #found do
  redis.call('RPUSH', KEYS[2], found[i])
end
for i = 1, #found, 2 do
  redis.call('ZREM', KEYS[1], found[i])
end
return #found / 2
