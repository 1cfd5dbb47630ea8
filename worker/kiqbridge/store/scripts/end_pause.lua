#!lua flags=allow-oom
-- End a pause whose time is over, or forget the entry of a queue that was taken off the set;
-- never one that was changed since it was read. The server's own clock decides, so that all
-- processes agree.
-- KEYS 1 pauses (hash), 2 paused queues (set)
-- ARGV 1 field, 2 queue name, '' for a class, 3 entry as it was read, 4 its end (epoch seconds),
--      '' = none
-- Returns 1 when it ended here, 0 when the entry is another one or gone, -1 when it is too early.
-- Repeated: 0, the entry is gone.
-- See docs/explanation/engine.md.
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[3] then
  return 0
end
if ARGV[2] == '' or redis.call('SISMEMBER', KEYS[2], ARGV[2]) == 1 then
  local time = redis.call('TIME')
  if ARGV[4] == '' or tonumber(time[1]) + tonumber(time[2]) / 1000000 < tonumber(ARGV[4]) then
    return -1
  end
  if ARGV[2] ~= '' then
    redis.call('SREM', KEYS[2], ARGV[2])
  end
end
redis.call('HDEL', KEYS[1], ARGV[1])
return 1
