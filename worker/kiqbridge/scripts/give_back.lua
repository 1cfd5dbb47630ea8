#!lua flags=allow-oom
-- Put claimed jobs back to the consuming end of their queue, bytes untouched.
-- KEYS 1 registered incarnations (set), 2 in-flight list of the claim, 3 queue list
-- ARGV 1 incarnation, 2… jobs, newest first, so that the oldest is the next to run
-- Answers how many were still ours, -1 when the lease is gone (fenced).
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 0 then
  return -1
end
local moved = 0
for i = 2, #ARGV do
  if redis.call('LPOS', KEYS[2], ARGV[i]) then
    redis.call('RPUSH', KEYS[3], ARGV[i])
    redis.call('LREM', KEYS[2], 1, ARGV[i])
    moved = moved + 1
  end
end
return moved
