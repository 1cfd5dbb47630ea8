-- include effects
-- Make the record of a batch. Keys: the batch (hash), the batches (sorted set). Arguments: its id, now (epoch
-- seconds), seconds to keep it, then fields and values. Answers 1, or 0: it is there already.
TYPES.batch_make = {'hash', 'zset'}
function EFFECTS.batch_make(keys, args)
  if redis.call('EXISTS', keys[1]) == 1 then
    return 0
  end
  redis.call('HSET', keys[1], 'created_at', args[2], 'total', 0, 'pending', 0, 'failed', 0, unpack(args, 4))
  redis.call('EXPIRE', keys[1], args[3])
  redis.call('ZREMRANGEBYSCORE', keys[2], '-inf', args[2])
  redis.call('ZADD', keys[2], tonumber(args[2]) + tonumber(args[3]), args[1])
  return 1
end
