#!lua flags=allow-oom
-- Pause a queue or a class, or change how it is paused.
-- With memory full too: who pauses then does it to help, and it is a few bytes.
-- KEYS 1 pauses (hash), 2 paused queues (set)
-- ARGV 1 field, 2 entry, 3 queue name, '' for a class
-- Returns 1 when it was not paused before, else 0.
-- Repeated: writes the same entry, and returns 0.
-- See docs/explanation/engine.md, protocol §21 (the set of Sidekiq Pro).
-- include wrong_type
local refused = wrong_type(KEYS[1], 'hash') or wrong_type(KEYS[2], 'set')
if refused then
  return refused
end
local is_new = redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0
if ARGV[3] ~= '' then
  is_new = redis.call('SADD', KEYS[2], ARGV[3]) == 1
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return is_new and 1 or 0
