#!lua flags=allow-oom
-- Push a job that is ours to the end of a queue in the same step that acknowledges it: an iterable job
-- that was interrupted, or one that goes to another queue, untouched.
-- KEYS 1 registered incarnations (set), 2 claims of this one (hash), 3 in-flight list of the claim,
--      4 names of queues (set), 5 queue list
-- ARGV 1 incarnation, 2 claimer, 3 number of the claim, 4 the job as claimed, 5 the job as it is
--      pushed, 6 queue name
-- Answers 1, 0 when the job is not ours any more (given back, or pushed by a call whose reply was
-- lost, or a later claim was made: this call was delivered late), -1 when the lease is gone (fenced).
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 0 then
  return -1
end
local last, number = redis.call('HGET', KEYS[2], ARGV[2]), ARGV[3] .. ' '
if not last or string.sub(last, 1, #number) ~= number then
  return 0
end
if not redis.call('LPOS', KEYS[3], ARGV[4]) then
  return 0
end
-- Looked at first: an error in the midst would leave a copy behind each time that this is repeated.
for i, wanted in ipairs({'set', 'list'}) do
  local found = redis.call('TYPE', KEYS[i + 3]).ok
  if found ~= 'none' and found ~= wanted then
    return redis.error_reply('WRONGTYPE ' .. KEYS[i + 3] .. ' is a ' .. found .. ', not a ' .. wanted)
  end
end
redis.call('SADD', KEYS[4], ARGV[6])
redis.call('LPUSH', KEYS[5], ARGV[5])
redis.call('LREM', KEYS[3], 1, ARGV[4])
return 1
