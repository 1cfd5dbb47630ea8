#!lua flags=allow-oom
-- Carry out an operator's action on jobs of a queue or a sorted set: push each to a queue, bury it, drop it, give it
-- another score, or another text. A job that a worker or another client has taken, moved or rescheduled since it was read is
-- skipped. Near the ends of a queue a job is removed, and the others keep their order. Far from both, where that
-- would compare 100,000 texts, the newest job of the queue takes its place: so a script takes no longer in a long
-- list, and no job waits longer than before.
-- KEYS 1 queue list or sorted set, 2 dead set, 3 names of queues (set), 4 audit log (sorted set), 5 its entries
--      (hash), 6 their counts (hash), then n queue lists, then those of effects
-- ARGV 1 id of the audit entry, 2 number of this batch, from 1 on, 3 time of the entry, 4 the entry, 5 the score to
--      set, 6 `list` or `zset`, what KEYS 1 is, 7 jobs that are near an end, 8 jobs to look at around a place, 9 `all`
--      to look through the whole list for what is not in its place, 10 number n of queue lists, n names of queues,
--      then for each job: its text, its score as read, or how many were to be taken before it, or '', `push`, `bury`,
--      `drop`, `score` or `text`, the text to push or to keep, or a score in place of that to set, number of its queue list or '', the effects of its end
--      (parts/each_effect.lua)
-- Returns the count of the audit entry: how many jobs all its batches have moved.
-- Repeated: a batch that was noted changes nothing; one that was not moves what is still as it was read.
-- See protocol §8.7, protocol §22, reliability §14.
-- include audit
-- include enqueue
-- include leave
local refused = wrong_type(KEYS[1], ARGV[6]) or wrong_type(KEYS[2], 'zset') or wrong_type(KEYS[3], 'set')
  or wrong_audit(KEYS[4], KEYS[5], KEYS[6])
local lists = tonumber(ARGV[10])
for n = 7, 6 + lists do
  refused = refused or wrong_type(KEYS[n], 'list')
end
local first_key, first = 7 + lists, 11 + lists
local key, i = first_key, first
while i <= #ARGV and not refused do
  refused, key, i = check_ending(key, i + 5)
end
if refused then
  return refused
end
local total, last = noted(KEYS[6], ARGV[1])
if last >= tonumber(ARGV[2]) then
  return total
end

local near, around, is_thorough = tonumber(ARGV[7]), tonumber(ARGV[8]), ARGV[9] == 'all'
local shift, misses = 0, 0

-- How many are to be taken before a job now: workers have taken some since it was read, or given some back.
local function place_of(text, place)
  if redis.call('LINDEX', KEYS[1], -1 - place) == text then
    return place
  end
  if misses > 2 then
    return nil
  end
  local first = math.max(place - around, 0)
  local found = redis.call('LRANGE', KEYS[1], -1 - place - around, -1 - first)
  for i = #found, 1, -1 do
    if found[i] == text then
      return first + #found - i
    end
  end
  misses = misses + 1
end

-- Compares no more than what is near the end that it begins from: 1, the head, or -1, the tail.
local function remove_near(text, from)
  return redis.call('LPOS', KEYS[1], text, 'RANK', from, 'MAXLEN', near + around)
    and redis.call('LREM', KEYS[1], from, text) == 1
end

local removals = {}
function removals.list(text, read_at)
  local place = read_at ~= '' and math.max(tonumber(read_at) + shift, 0)
  if place then
    local length = redis.call('LLEN', KEYS[1])
    if place <= near or length - place <= near then
      if remove_near(text, place <= near and -1 or 1) then
        return true
      end
    else
      local now_at = place_of(text, place)
      shift = now_at and now_at - tonumber(read_at) or shift
      if now_at and now_at > near then
        redis.call('LSET', KEYS[1], -1 - now_at, redis.call('LPOP', KEYS[1]))
        return true
      elseif now_at then
        return redis.call('LREM', KEYS[1], -1, text) == 1
      end
    end
  end
  return is_thorough and redis.call('LREM', KEYS[1], 1, text) == 1
end
-- What gets another score stays in its set.
function removals.zset(member, read_at, effect)
  local score = redis.call('ZSCORE', KEYS[1], member)
  return score and tonumber(score) == tonumber(read_at)
    and (effect == 'score' or redis.call('ZREM', KEYS[1], member) == 1)
end

local moved, _ = 0, nil
key, i = first_key, first
while i <= #ARGV do
  local member, effect, text, list = ARGV[i], ARGV[i + 2], ARGV[i + 3], tonumber(ARGV[i + 4])
  if removals[ARGV[6]](member, ARGV[i + 1], effect) then
    if effect == 'push' then
      enqueue(KEYS[3], ARGV[10 + list], KEYS[6 + list], text)
    elseif effect == 'score' then
      redis.call('ZADD', KEYS[1], text ~= '' and text or ARGV[5], member)
    elseif effect == 'text' then
      redis.call('ZADD', KEYS[1], ARGV[i + 1], text)
    end
    _, key, i = leave(effect == 'bury' and KEYS[2] or nil, ARGV[5], text, key, i + 5)
    moved = moved + 1
  else
    _, key, i = check_ending(key, i + 5)
  end
end
return note(KEYS[4], KEYS[5], KEYS[6], ARGV[1], ARGV[2], ARGV[3], ARGV[4], moved)
