-- include effects
-- Keep the result of a job. Keys: the result (string). Arguments: for how many seconds, the result. Answers 1.
TYPES.result = {'string'}
function EFFECTS.result(keys, args)
  redis.call('SET', keys[1], args[2], 'EX', args[1])
  return 1
end
