#!lua flags=allow-oom
-- A process has ended: if it was the last one, no process listens to its set of queues, and none waits for that.
-- KEYS 1 registered incarnations, 2 sign of who listens, 3 the standby, 4 wake list
-- ARGV none
-- Returns how many processes there still are.
-- Repeated: the same.
-- See reliability §7.
local count = redis.call('SCARD', KEYS[1])
if count == 0 then
  redis.call('DEL', KEYS[2], KEYS[3], KEYS[4])
end
return count
