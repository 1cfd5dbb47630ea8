#!lua flags=allow-oom
-- Move jobs of one claim that are ours into a sorted set (retry, schedule, dead) in the same step that
-- acknowledges them.
-- KEYS 1 registered incarnations (set), 2 claims of this one (hash), 3 in-flight list of the claim,
--      4 sorted set
-- ARGV 1 incarnation, 2 claimer, 3 number of the claim, for the dead set 4 drop what died up to this
--      score and 5 drop all but the last N - 1, else '' twice, then for each job: the job as claimed,
--      score, the job as it shall be kept
-- Answers for each job 1, or 0 when it is not ours any more (given back, or settled by a call whose
-- reply was lost, or a later claim was made: this call was delivered late); -1 when the lease is gone
-- (fenced).
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

if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 0 then
  return -1
end
local last, number = redis.call('HGET', KEYS[2], ARGV[2]), ARGV[3] .. ' '
local is_current = last and string.sub(last, 1, #number) == number
local answers, moved = {}, 0
for i = 6, #ARGV, 3 do
  local ours = 0
  -- From the tail: the oldest are there, and run first.
  if is_current and redis.call('LPOS', KEYS[3], ARGV[i], 'RANK', -1) then
    add(KEYS[4], ARGV[i + 1], ARGV[i + 2])
    redis.call('LREM', KEYS[3], -1, ARGV[i])
    ours = 1
  end
  moved = moved + ours
  answers[#answers + 1] = ours
end
if moved > 0 and ARGV[4] ~= '' then
  redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', ARGV[4])
  redis.call('ZREMRANGEBYRANK', KEYS[4], 0, '-' .. ARGV[5])
end
return answers
