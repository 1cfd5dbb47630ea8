#!lua flags=allow-oom
-- Forget what an export holds, as it is safely written.
-- KEYS 1 what an export holds (list)
-- ARGV 1 its first member
-- Returns 1, or 0 if another export holds something, or none.
-- Repeated: 0.
-- See docs/reference/command_line.md.
if redis.call('LINDEX', KEYS[1], 0) ~= ARGV[1] then
  return 0
end
return redis.call('DEL', KEYS[1])
