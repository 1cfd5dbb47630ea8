-- include effects
-- The job behind a group begins, or never will: what the group's jobs have returned is forgotten. Keys: the batch
-- (hash). Arguments: why it never will, or '', then the places of the jobs. Answers how many were forgotten.
TYPES.batch_results_over = {'hash'}
function EFFECTS.batch_results_over(keys, args)
  if redis.call('EXISTS', keys[1]) == 0 then
    return 0
  end
  if args[1] ~= '' then
    redis.call('HSETNX', keys[1], 'refused', args[1])
  end
  local fields = {}
  for i = 2, #args do
    fields[#fields + 1] = 'result:' .. args[i]
  end
  return redis.call('HDEL', keys[1], 'result_bytes', unpack(fields))
end
