#!lua flags=allow-oom
-- Move members that cannot become jobs from a sorted set to the dead set.
-- KEYS 1 sorted set, 2 dead set
-- ARGV 1 now (score), 2 drop what died up to this score, 3 drop all but the last N - 1, then for
--      each member: as read, as it shall be kept
-- Answers how many were moved.
-- Twins, jobs with the same bytes, cannot both be members of a set: one gets JSON whitespace behind it,
-- which every reader skips. The shortest that is free, found in a few steps however many twins there are.
local function blanks(number)
  local text = ''
  while number > 0 do
    local digit = (number - 1) % 3
    text = string.sub(' \t\n', digit + 1, digit + 1) .. text
    number = (number - 1 - digit) / 3
  end
  return text
end
local function add(key, score, job)
  if redis.call('ZADD', key, 'NX', score, job) == 1 then
    return
  end
  local taken, free = 0, 1
  while redis.call('ZSCORE', key, job .. blanks(free)) do
    taken, free = free, 2 * free
  end
  while free - taken > 1 do
    local middle = math.floor((taken + free) / 2)
    if redis.call('ZSCORE', key, job .. blanks(middle)) then
      taken = middle
    else
      free = middle
    end
  end
  redis.call('ZADD', key, score, job .. blanks(free))
end

local moved = 0
for i = 4, #ARGV, 2 do
  if redis.call('ZSCORE', KEYS[1], ARGV[i]) then
    add(KEYS[2], ARGV[1], ARGV[i + 1])
    redis.call('ZREM', KEYS[1], ARGV[i])
    moved = moved + 1
  end
end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', ARGV[2])
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, '-' .. ARGV[3])
return moved
