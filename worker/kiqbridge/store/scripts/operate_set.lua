#!lua flags=allow-oom
-- Carry out an operator's action on members of a sorted set: push each to its queue, bury it, drop it, or give it
-- another score. A member that another client has moved, deleted or rescheduled since it was read is skipped.
-- KEYS 1 sorted set, 2 dead set, 3 reports for Step Functions (sorted set), 4 names of queues (set), 5 audit log
--      (sorted set), 6 its entries (hash), 7 their counts (hash), 8 ends of jobs under flow control (sorted set), then
--      n queue lists, then for each end: ends of its schedule (sorted set), its ledger (sorted set)
-- ARGV 1 id of the audit entry, 2 number of this batch, from 1 on, 3 time of the entry, 4 the entry, 5 the score to
--      set, 6 number n of queue lists, n names of queues, then for each member: as read, its score as read, `push`, `bury`, `drop` or
--      `score`, the text to push or to keep, number of its queue list or '', its report or '', its end or '', the
--      instant of that
-- Returns the count of the audit entry: how many members all its batches have moved.
-- Repeated: a batch that was noted changes nothing; one that was not moves what is still as it was read.
-- See protocol §8.7, protocol §22, reliability §14.
-- include audit
-- include add_twin
-- include add_end
-- include add_report
local refused = wrong_type(KEYS[1], 'zset') or wrong_type(KEYS[2], 'zset') or wrong_type(KEYS[3], 'zset')
  or wrong_type(KEYS[4], 'set') or wrong_audit(KEYS[5], KEYS[6], KEYS[7]) or wrong_type(KEYS[8], 'zset')
local lists = tonumber(ARGV[6])
for i = 9, 8 + lists do
  refused = refused or wrong_type(KEYS[i], 'list')
end
if refused then
  return refused
end
local total, last = noted(KEYS[7], ARGV[1])
if last >= tonumber(ARGV[2]) then
  return total
end

local effects = {}
local named = {}
function effects.push(text, list)
  if not named[list] then
    redis.call('SADD', KEYS[4], ARGV[6 + list])
    named[list] = true
  end
  redis.call('LPUSH', KEYS[8 + list], text)
end
function effects.bury(text)
  add_twin(KEYS[2], ARGV[5], text)
end
function effects.drop()
end
-- What stays in its set gets another score there.
function effects.score(_, _, member)
  redis.call('ZADD', KEYS[1], ARGV[5], member)
end

local first = 7 + lists
local read, moved, left, ends = {}, 0, {}, 9 + lists
for i = first, #ARGV, 8 do
  read[#read + 1] = ARGV[i]
end
local scores = redis.call('ZMSCORE', KEYS[1], unpack(read))
for n, member in ipairs(read) do
  local i = first + 8 * (n - 1)
  local effect = ARGV[i + 2]
  local is_there = scores[n] and tonumber(scores[n]) == tonumber(ARGV[i + 1])
  if ARGV[i + 6] ~= '' then
    if is_there then
      add_end(KEYS[ends], KEYS[ends + 1], ARGV[i + 7], ARGV[i + 6])
    end
    ends = ends + 2
  end
  if is_there then
    effects[effect](ARGV[i + 3], tonumber(ARGV[i + 4]), member)
    if ARGV[i + 5] ~= '' then
      add_report(KEYS[3], KEYS[8], ARGV[i + 5])
    end
    if effect ~= 'score' then
      left[#left + 1] = member
    end
    moved = moved + 1
  end
end
if left[1] then
  redis.call('ZREM', KEYS[1], unpack(left))
end
return note(KEYS[5], KEYS[6], KEYS[7], ARGV[1], ARGV[2], ARGV[3], ARGV[4], moved)
