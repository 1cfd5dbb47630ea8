#!lua flags=allow-oom
-- Move jobs of one claim that are ours into a sorted set (retry, schedule, dead), or let them leave Redis, in the
-- same step that acknowledges them.
-- KEYS 1 registered incarnations (set), 2 claims of this one (hash), 3 in-flight list of the claim,
--      4 sorted set (the in-flight list again: they leave Redis); with a report: the reports for Step
--      Functions, or the ends of jobs under flow control (sorted set); with an end: ends of the schedule (sorted set), its ledger (sorted set)
-- ARGV 1 incarnation, 2 claimer, 3 number of the claim, 4 the report that is added with the job, or '',
--      5 its end for the ledger, or '', 6 the instant of that, then for each job: the job as claimed, score,
--      the job as it is to be kept
-- Returns for each job 1, or 0 when it is not ours any more (given back, or settled by a call whose
-- reply was lost, or a later claim was made: this call was delivered late); -1 when the lease is gone
-- (fenced). 2: settled, and its end has no place, since a key is of another type.
-- Repeated: a job that is settled is not in the list any more: 0, and nothing is written.
-- See reliability §4, reliability §14.
-- include fence
-- include current_claim
-- include add_twin
-- include add_end
local leaves, others = KEYS[4] == KEYS[3], 5
if ARGV[4] ~= '' then
  others = 6
  local refused = wrong_type(KEYS[5], 'zset')
  if refused then
    return refused
  end
end
local is_last_claim = is_current(ARGV[2], ARGV[3])
local answers = {}
for i = 7, #ARGV, 3 do
  local answer = 0
  -- From the tail: the oldest are there, and run first.
  if is_last_claim and redis.call('LPOS', KEYS[3], ARGV[i], 'RANK', -1) then
    answer = 1
    if not leaves then
      add_twin(KEYS[4], ARGV[i + 1], ARGV[i + 2])
    end
    if ARGV[4] ~= '' then
      redis.call('ZADD', KEYS[5], 0, ARGV[4])
    end
    if ARGV[5] ~= '' and not add_end(KEYS[others], KEYS[others + 1], ARGV[6], ARGV[5]) then
      answer = 2
    end
    redis.call('LREM', KEYS[3], -1, ARGV[i])
  end
  answers[#answers + 1] = answer
end
return answers
