#!lua flags=allow-oom
-- Put what an export holds back to where it was: into a queue as the next to be taken.
-- KEYS 1 queue (list) or set (zset), 2 what an export holds (list)
-- ARGV 1 its first member, 2 'queue' or 'set'
-- Returns how many were put back; 0 if another export holds something, or none.
-- Repeated: 0.
-- See docs/reference/command_line.md.
local held = redis.call('LRANGE', KEYS[2], 0, -1)
if held[1] ~= ARGV[1] then
  return 0
end
if ARGV[2] == 'queue' then
  for i = #held, 2, -1 do
    redis.call('RPUSH', KEYS[1], held[i])
  end
else
  for i = 2, #held, 2 do
    redis.call('ZADD', KEYS[1], 'NX', held[i + 1], held[i])
  end
end
redis.call('DEL', KEYS[2])
return ARGV[2] == 'queue' and #held - 1 or (#held - 1) / 2
