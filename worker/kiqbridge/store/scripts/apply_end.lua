#!lua flags=allow-oom
-- Apply the consequences of a job's end, and remove the end, in one step: each consequence comes about once,
-- however many workers try.
-- KEYS 1 ends of jobs under flow control (sorted set), then for each effect its keys
-- ARGV 1 the end as it was read, then for each effect: its name, number of its keys, number of its arguments, its
--      arguments
-- Returns an empty list when the end is gone, else for each effect what it answers; a text that begins with
-- WRONGTYPE: a key has a value of another type, and this effect did nothing.
-- Repeated: the end is gone, and nothing is done.
-- See reliability §14.
-- include effect_push
-- include effect_report
-- include effect_unlock
-- include effect_result
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then
  return {}
end

local function apply(name, keys, args)
  if name == 'push' then
    return effect_push(keys, args)
  elseif name == 'report' then
    return effect_report(keys, args)
  elseif name == 'unlock' then
    return effect_unlock(keys, args)
  elseif name == 'result' then
    return effect_result(keys, args)
  end
end

local answers, key, i = {}, 2, 2
while i <= #ARGV do
  local keys, args = {}, {}
  for n = 1, tonumber(ARGV[i + 1]) do
    keys[n] = KEYS[key]
    key = key + 1
  end
  local first = i + 3
  for n = 1, tonumber(ARGV[i + 2]) do
    args[n] = ARGV[first + n - 1]
  end
  answers[#answers + 1] = apply(ARGV[i], keys, args)
  i = first + #args
end
return answers
