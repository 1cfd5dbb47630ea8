#!lua flags=allow-oom
-- Move jobs of one claim that are ours into a sorted set (retry, schedule, dead) in the same step that
-- acknowledges them.
-- KEYS 1 registered incarnations (set), 2 claims of this one (hash), 3 in-flight list of the claim,
--      4 sorted set; only with a report: 5 reports for Step Functions (sorted set)
-- ARGV 1 incarnation, 2 claimer, 3 number of the claim, for the dead set 4 remove what died up to this
--      score and 5 keep the last N - 1 only, else '' twice, with a fifth key 6 the report that
--      is added with the job, then for each job: the job as claimed, score, the job as it is to be kept
-- Returns for each job 1, or 0 when it is not ours any more (given back, or settled by a call whose
-- reply was lost, or a later claim was made: this call was delivered late); -1 when the lease is gone
-- (fenced).
-- Repeated: a job that is settled is not in the list any more: 0, and nothing is written.
-- See reliability §4, reliability §14, protocol §8.5.
-- include fence
-- include current_claim
-- include add_twin
-- include trim_dead
-- include wrong_type
local report, first = nil, 6
if #KEYS == 5 then
  report, first = ARGV[6], 7
  local refused = wrong_type(KEYS[5], 'zset')
  if refused then
    return refused
  end
end
local is_last_claim = is_current(ARGV[2], ARGV[3])
local answers, moved = {}, 0
for i = first, #ARGV, 3 do
  local ours = 0
  -- From the tail: the oldest are there, and run first.
  if is_last_claim and redis.call('LPOS', KEYS[3], ARGV[i], 'RANK', -1) then
    add_twin(KEYS[4], ARGV[i + 1], ARGV[i + 2])
    if report then
      redis.call('ZADD', KEYS[5], 0, report)
    end
    redis.call('LREM', KEYS[3], -1, ARGV[i])
    ours = 1
  end
  moved = moved + ours
  answers[#answers + 1] = ours
end
if moved > 0 and ARGV[4] ~= '' then
  trim_dead(KEYS[4], ARGV[4], ARGV[5])
end
return answers
