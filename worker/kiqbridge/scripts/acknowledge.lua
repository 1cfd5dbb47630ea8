#!lua flags=allow-oom
-- Take finished jobs off in-flight lists, one by one, while others of the same lists still run.
-- KEYS 1 registered incarnations (set), 2… in-flight lists
-- ARGV 1 incarnation, then for each job the number of its list in KEYS and its text
-- Answers how many were there, -1 when the lease is gone (fenced).
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 0 then
  return -1
end
local done = 0
for i = 2, #ARGV, 2 do
  done = done + redis.call('LREM', KEYS[tonumber(ARGV[i])], 1, ARGV[i + 1])
end
return done
