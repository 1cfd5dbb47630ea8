-- include effects
-- Make the effects that follow only once: those of a step of a chain. Keys: number of the last step that was begun (string).
-- Arguments: number of this step, seconds to remember it, number of the effects that belong to it. Answers 1, or 0:
-- it was begun before.
TYPES.guard = {'string'}
function EFFECTS.guard(keys, args)
  local begun = tonumber(redis.call('GET', keys[1]) or '0') or 0
  if begun >= tonumber(args[1]) then
    return 0
  end
  redis.call('SET', keys[1], args[1], 'EX', args[2])
  return 1
end
