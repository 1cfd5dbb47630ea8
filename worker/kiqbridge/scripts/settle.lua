#!lua flags=allow-oom
-- Move one job that is ours into a sorted set (retry, schedule, dead) in the same step that
-- acknowledges it.
-- KEYS 1 registered incarnations (set), 2 in-flight list of the claim, 3 sorted set
-- ARGV 1 incarnation, 2 the job as claimed, 3 score, 4 the job as it shall be kept,
--      for the dead set also 5 drop what died up to this score, 6 drop all but the last N - 1
-- Answers 1, 0 when the job is not ours any more (given back, or settled by a call whose reply was
-- lost), -1 when the lease is gone (fenced).
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 0 then
  return -1
end
if not redis.call('LPOS', KEYS[2], ARGV[2]) then
  return 0
end
redis.call('ZADD', KEYS[3], ARGV[3], ARGV[4])
if ARGV[5] then
  redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', ARGV[5])
  redis.call('ZREMRANGEBYRANK', KEYS[3], 0, '-' .. ARGV[6])
end
redis.call('LREM', KEYS[2], 1, ARGV[2])
return 1
