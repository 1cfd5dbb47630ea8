-- Add a job to a sorted set, beside its twins (reliability §4.1). Jobs with the same bytes cannot both be
-- members: one gets JSON whitespace behind it, which every reader skips. The shortest that is free, found
-- in a few steps however many twins there are.
local function blanks(number)
  local text = ''
  while number > 0 do
    local digit = (number - 1) % 3
    text = string.sub(' \t\n', digit + 1, digit + 1) .. text
    number = (number - 1 - digit) / 3
  end
  return text
end
local function add_twin(key, score, job)
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
