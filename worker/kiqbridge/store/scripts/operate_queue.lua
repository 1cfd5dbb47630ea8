#!lua flags=allow-oom
-- Carry out an operator's action on jobs of a queue: move each to another queue, bury it, or drop it. A job that a
-- worker has taken meanwhile is skipped.
-- KEYS 1 queue list, 2 dead set, 3 reports for Step Functions (sorted set), 4 names of queues (set), 5 audit log
--      (sorted set), 6 its entries (hash), 7 their counts (hash), 8 list of the queue to move to, or as 1, then for
--      each end: ends of its schedule (sorted set), its ledger (sorted set)
-- ARGV 1 id of the audit entry, 2 number of this batch, from 1 on, 3 time of the entry, 4 the entry, 5 score in the
--      dead set, 6 of the dead set: remove what died up to this score, 7 keep the last N - 1 only, 8 name of the
--      queue to move to, then for each job: its text, 1 or -1: look for it from the head or from the tail on,
--      `move`, `bury` or `drop`, the text to push or to keep, its report or '', its end or '', the instant of that
-- Returns the count of the audit entry: how many jobs all its batches have moved.
-- Repeated: a batch that was noted changes nothing; one that was not moves what is still in the queue.
-- See protocol §22, reliability §14.
-- include audit
-- include add_twin
-- include add_end
-- include enqueue
-- include trim_some
local refused = wrong_type(KEYS[1], 'list') or wrong_type(KEYS[2], 'zset') or wrong_type(KEYS[3], 'zset')
  or wrong_type(KEYS[4], 'set') or wrong_audit(KEYS[5], KEYS[6], KEYS[7]) or wrong_type(KEYS[8], 'list')
if refused then
  return refused
end
local total, last = noted(KEYS[7], ARGV[1])
if last >= tonumber(ARGV[2]) then
  return total
end

local effects = {}
function effects.move(text)
  enqueue(KEYS[4], ARGV[8], KEYS[8], text)
end
function effects.bury(text)
  add_twin(KEYS[2], ARGV[5], text)
end
function effects.drop()
end

local moved, buried, ends = 0, 0, 9
for i = 9, #ARGV, 7 do
  local effect = ARGV[i + 2]
  local is_there = redis.call('LREM', KEYS[1], ARGV[i + 1], ARGV[i]) == 1
  if ARGV[i + 5] ~= '' then
    if is_there then
      add_end(KEYS[ends], KEYS[ends + 1], ARGV[i + 6], ARGV[i + 5])
    end
    ends = ends + 2
  end
  if is_there then
    effects[effect](ARGV[i + 3])
    if ARGV[i + 4] ~= '' then
      redis.call('ZADD', KEYS[3], 0, ARGV[i + 4])
    end
    moved = moved + 1
    buried = buried + (effect == 'bury' and 1 or 0)
  end
end
if buried > 0 then
  trim_some(KEYS[2], ARGV[6], tonumber(ARGV[7]), buried)
end
return note(KEYS[5], KEYS[6], KEYS[7], ARGV[1], ARGV[2], ARGV[3], ARGV[4], moved)
