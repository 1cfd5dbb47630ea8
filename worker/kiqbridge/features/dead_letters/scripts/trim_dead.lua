#!lua flags=allow-oom
-- Remove members of the dead set that are as they were read, and note how many of them the bound on its number has
-- cost. A member that somebody has retried, deleted or killed again since is left alone.
-- KEYS 1 dead set, 2 what was dropped (sorted set)
-- ARGV 1 now, 2 what died up to this score has had its time, 3 id of the note, 4 forget notes up to this score, then
--      for each member: as read, its score as read
-- Returns for each member 1, or 0 if it was left alone.
-- Repeated: what was removed is gone: 0, and nothing is noted.
-- See reliability §16, protocol §8.5.
-- include wrong_type
local refused = wrong_type(KEYS[1], 'zset') or wrong_type(KEYS[2], 'zset')
if refused then
  return refused
end
local read, answers, removed, dropped = {}, {}, {}, 0
for i = 5, #ARGV, 2 do
  read[#read + 1] = ARGV[i]
end
local scores = redis.call('ZMSCORE', KEYS[1], unpack(read))
for n, member in ipairs(read) do
  local score = scores[n] and tonumber(scores[n])
  answers[n] = 0
  if score and score == tonumber(ARGV[4 + 2 * n]) then
    answers[n] = 1
    removed[#removed + 1] = member
    if score > tonumber(ARGV[2]) then
      dropped = dropped + 1
    end
  end
end
if dropped > 0 then
  redis.call('ZADD', KEYS[2], ARGV[1], dropped .. ' ' .. ARGV[3])
end
if removed[1] then
  redis.call('ZREM', KEYS[1], unpack(removed))
end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', ARGV[4])
return answers
