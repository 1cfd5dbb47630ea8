-- include effects
-- Keep what a job of a group has returned for the job behind the group. Keys: the batch (hash). Arguments: place of the
-- job in the group, JSON text of the value or '', bytes that all values may have, why that job does not begin if this
-- one is '', or if they have more. Answers 1, or 0: it is not kept.
TYPES.batch_result = {'hash'}
function EFFECTS.batch_result(keys, args)
  local batch, field, text = keys[1], 'result:' .. args[1], args[2]
  if redis.call('EXISTS', batch) == 0 then
    return 0
  end
  local former = string.len(redis.call('HGET', batch, field) or '')
  local bytes = tonumber(redis.call('HGET', batch, 'result_bytes') or 0) - former + string.len(text)
  if text == '' or bytes > tonumber(args[3]) then
    redis.call('HSETNX', batch, 'refused', args[text == '' and 4 or 5])
    return 0
  end
  redis.call('HSET', batch, field, text, 'result_bytes', bytes)
  return 1
end
