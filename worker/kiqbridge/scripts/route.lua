#!lua flags=allow-oom
-- Push one job that is ours to another queue in the same step that acknowledges it, bytes untouched.
-- KEYS 1 registered incarnations (set), 2 in-flight list of the claim, 3 queue list, 4 names of
--      queues (set)
-- ARGV 1 incarnation, 2 the job as claimed, 3 queue name
-- Answers 1, 0 when the job is not ours any more (given back, or routed by a call whose reply was
-- lost), -1 when the lease is gone (fenced).
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 0 then
  return -1
end
if not redis.call('LPOS', KEYS[2], ARGV[2]) then
  return 0
end
-- Looked at first: an error in the midst would leave a copy behind each time that this is repeated.
for key, wanted in pairs({[KEYS[3]] = 'list', [KEYS[4]] = 'set'}) do
  local found = redis.call('TYPE', key).ok
  if found ~= 'none' and found ~= wanted then
    return redis.error_reply('WRONGTYPE ' .. key .. ' is a ' .. found .. ', not a ' .. wanted)
  end
end
redis.call('LPUSH', KEYS[3], ARGV[2])
redis.call('SADD', KEYS[4], ARGV[3])
redis.call('LREM', KEYS[2], 1, ARGV[2])
return 1
