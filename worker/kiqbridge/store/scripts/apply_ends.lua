#!lua flags=allow-oom
-- Apply the consequences of jobs' ends, and remove the ends, in one step: each consequence is made once, however
-- many workers try.
-- KEYS 1 ends of jobs under flow control (sorted set), then for each effect its keys
-- ARGV for each end: the end as it was read, then its effects (parts/each_effect.lua)
-- Returns for each end 0 when it is gone, else a list of what each effect answers. An error: a key has a value of
-- another type, and nothing was done; or the user may not run a command, and effects up to there are made again. The
-- end stays, so that no job that is to follow is lost.
-- Repeated: the ends are gone, and nothing is done.
-- See reliability §14.
-- include apply_effects
-- include effect_push
-- include effect_add
-- include effect_guard
local refused
local function check(name, keys)
  refused = refused or wrong_keys(name, keys)
end
local key, i = 2, 1
while i <= #ARGV do
  key, i = each_effect(key, i + 1, check)
end
if refused then
  return refused
end
-- An end whose effects are refused in the middle is added again below: this is refused before anything is done.
if #ARGV > 0 then
  redis.call('ZADD', KEYS[1], 'XX', 0, ARGV[1])
end
local answers, answer, is_applied = {}, nil, nil
key, i = 2, 1
while i <= #ARGV do
  if redis.call('ZREM', KEYS[1], ARGV[i]) == 1 then
    local text, first, at = ARGV[i], key, i + 1
    is_applied, answer, key, i = pcall(function()
      return apply_effects(first, at)
    end)
    if not is_applied then
      redis.call('ZADD', KEYS[1], 0, text)
      return type(answer) == 'table' and answer or redis.error_reply(answer)
    end
  else
    answer = 0
    key, i = each_effect(key, i + 1, function() end)
  end
  answers[#answers + 1] = answer
end
return answers
