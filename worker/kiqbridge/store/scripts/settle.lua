#!lua flags=allow-oom
-- Move jobs of one claim that are ours into a sorted set (retry, schedule, dead), or let them leave Redis, in the
-- same step that acknowledges them.
-- KEYS 1 registered incarnations (set), 2 claims of this one (hash), 3 in-flight list of the claim,
--      4 sorted set (the in-flight list again: they leave Redis), then those of effects
-- ARGV 1 incarnation, 2 claimer, 3 number of the claim, then for each job: the job as claimed, score, the job as it is
--      to be kept, the effects of its end (parts/each_effect.lua)
-- Returns for each job 1, or 0 when it belongs to another worker now (given back, or settled by a call whose
-- reply was lost, or a later claim was made: this call was delivered late); -1 when the lease is gone
-- (fenced). 2: settled, and its end has no place, since a key is of another type.
-- Repeated: a job that is settled is not in the list any more: 0, and nothing is written.
-- See reliability §4, reliability §14.
-- include fence
-- include current_claim
-- include leave
local key, i, refused = 5, 4, nil
while i <= #ARGV do
  refused, key, i = check_ending(key, i + 3)
  if refused then
    return refused
  end
end
local target = KEYS[4] ~= KEYS[3] and KEYS[4] or nil
local is_last_claim = is_current(ARGV[2], ARGV[3])
local answers, is_complete = {}, nil
key, i = 5, 4
while i <= #ARGV do
  local job, score, text, answer = ARGV[i], ARGV[i + 1], ARGV[i + 2], 0
  -- From the tail: the oldest are there, and run first.
  if is_last_claim and redis.call('LPOS', KEYS[3], job, 'RANK', -1) then
    is_complete, key, i = leave(target, score, text, key, i + 3)
    answer = is_complete and 1 or 2
    redis.call('LREM', KEYS[3], -1, job)
  else
    refused, key, i = check_ending(key, i + 3)
  end
  answers[#answers + 1] = answer
end
return answers
