#!lua flags=allow-oom
-- Let a queue or a class run again, whoever paused it.
-- KEYS 1 pauses (hash), 2 paused queues (set)
-- ARGV 1 field, 2 queue name, '' for a class
-- Answers 1 when it was paused, else 0.
local ended = redis.call('HEXISTS', KEYS[1], ARGV[1])
if ARGV[2] ~= '' then
  ended = redis.call('SREM', KEYS[2], ARGV[2])
end
redis.call('HDEL', KEYS[1], ARGV[1])
return ended
