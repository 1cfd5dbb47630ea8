#!lua flags=allow-oom
-- Push a job that is ours to the end of a queue in the same step that acknowledges it: an iterable job
-- that was interrupted, or one that goes to another queue, untouched.
-- KEYS 1 registered incarnations (set), 2 claims of this one (hash), 3 in-flight list of the claim,
--      4 names of queues (set), 5 queue list
-- ARGV 1 incarnation, 2 claimer, 3 number of the claim, 4 the job as claimed, 5 the job as it is
--      pushed, 6 queue name
-- Returns 1, 0 when the job belongs to another worker now (given back, or pushed by a call whose reply was
-- lost, or a later claim was made: this call was delivered late), -1 when the lease is gone (fenced).
-- Repeated: the job is not in the list any more: 0, and nothing is pushed.
-- See reliability §4.
-- include fence
-- include current_claim
-- include wrong_type
-- include enqueue
if not is_current(ARGV[2], ARGV[3]) then
  return 0
end
if not redis.call('LPOS', KEYS[3], ARGV[4]) then
  return 0
end
local refused = wrong_type(KEYS[4], 'set') or wrong_type(KEYS[5], 'list')
if refused then
  return refused
end
enqueue(KEYS[4], ARGV[6], KEYS[5], ARGV[5])
redis.call('LREM', KEYS[3], 1, ARGV[4])
return 1
