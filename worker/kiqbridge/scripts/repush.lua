#!lua flags=allow-oom
-- Push a job that is ours to the end of a queue in the same step that acknowledges it: an iterable job
-- that was interrupted, or one that goes to another queue, untouched.
-- KEYS 1 registered incarnations (set), 2 in-flight list of the claim, 3 names of queues (set),
--      4 queue list
-- ARGV 1 incarnation, 2 the job as claimed, 3 the job as it is pushed, 4 queue name
-- Answers 1, 0 when the job is not ours any more (given back, or pushed by a call whose reply was
-- lost), -1 when the lease is gone (fenced).
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 0 then
  return -1
end
if not redis.call('LPOS', KEYS[2], ARGV[2]) then
  return 0
end
-- Looked at first: an error in the midst would leave a copy behind each time that this is repeated.
for i, wanted in ipairs({'set', 'list'}) do
  local found = redis.call('TYPE', KEYS[i + 2]).ok
  if found ~= 'none' and found ~= wanted then
    return redis.error_reply('WRONGTYPE ' .. KEYS[i + 2] .. ' is a ' .. found .. ', not a ' .. wanted)
  end
end
redis.call('SADD', KEYS[3], ARGV[4])
redis.call('LPUSH', KEYS[4], ARGV[3])
redis.call('LREM', KEYS[2], 1, ARGV[2])
return 1
