#!lua flags=allow-oom
-- End the pause of a queue or a class, also one that another program made.
-- KEYS 1 pauses (hash), 2 paused queues (set)
-- ARGV 1 field, 2 queue name, '' for a class
-- Returns 1 when it was paused, else 0.
-- Repeated: 0, and nothing is written.
-- See docs/explanation/engine.md, protocol §21 (the set of Sidekiq Pro).
local ended = redis.call('HEXISTS', KEYS[1], ARGV[1])
if ARGV[2] ~= '' then
  ended = redis.call('SREM', KEYS[2], ARGV[2])
end
redis.call('HDEL', KEYS[1], ARGV[1])
return ended
