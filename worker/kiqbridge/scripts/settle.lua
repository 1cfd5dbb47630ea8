#!lua flags=allow-oom
-- Move jobs of one claim that are ours into a sorted set (retry, schedule, dead) in the same step that
-- acknowledges them.
-- KEYS 1 registered incarnations (set), 2 in-flight list of the claim, 3 sorted set
-- ARGV 1 incarnation, for the dead set 2 drop what died up to this score and 3 drop all but the last
--      N - 1, else '' twice, then for each job: the job as claimed, score, the job as it shall be kept
-- Answers for each job 1, or 0 when it is not ours any more (given back, or settled by a call whose
-- reply was lost); -1 when the lease is gone (fenced).
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 0 then
  return -1
end
local answers, moved = {}, 0
for i = 4, #ARGV, 3 do
  local ours = 0
  -- From the tail: the oldest are there, and run first.
  if redis.call('LPOS', KEYS[2], ARGV[i], 'RANK', -1) then
    redis.call('ZADD', KEYS[3], ARGV[i + 1], ARGV[i + 2])
    redis.call('LREM', KEYS[2], -1, ARGV[i])
    ours = 1
  end
  moved = moved + ours
  answers[#answers + 1] = ours
end
if moved > 0 and ARGV[2] ~= '' then
  redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', ARGV[2])
  redis.call('ZREMRANGEBYRANK', KEYS[3], 0, '-' .. ARGV[3])
end
return answers
