-- include effects
-- include push
-- Add members to a batch, and push those that are jobs. Keys: the batch (hash), its members (hash), names of queues
-- (set), queue (list), the scheduled set. Arguments: `new` to push those only that are no members yet, and to refuse
-- a batch that takes none, `all` to push each; seconds to keep the batch; name of the queue, '' for batches; class of all
-- these jobs, or '', which the record has in `class` while all jobs are of one; then for each: its member, time to run at (score) or '', the job or ''. Answers how many were pushed, or GONE: there is no such
-- batch, CANCELLED, or OVER: its success has been announced; then nothing was done.
TYPES.batch_jobs = {'hash', 'hash', 'set', 'list', 'zset'}
function EFFECTS.batch_jobs(keys, args)
  local only_new = args[1] == 'new'
  local is_there = redis.call('EXISTS', keys[1]) == 1
  if only_new then
    if not is_there then
      return 'GONE'
    end
    local over = redis.call('HMGET', keys[1], 'cancelled_at', 'success_at')
    local is_repeated = redis.call('HEXISTS', keys[2], args[5]) == 1
    if (over[1] or over[2]) and not is_repeated then
      return over[1] and 'CANCELLED' or 'OVER'
    end
  end
  local added, pushed = 0, 0
  for i = 5, #args, 3 do
    local is_new = is_there and redis.call('HSETNX', keys[2], args[i], 'p') == 1
    if is_new then
      added = added + 1
    end
    if args[i + 2] ~= '' and (is_new or not only_new) then
      push(keys[3], args[3], args[i + 1] == '' and keys[4] or keys[5], args[i + 1], args[i + 2])
      pushed = pushed + 1
    end
  end
  if added > 0 then
    redis.call('HINCRBY', keys[1], 'total', added)
    redis.call('HINCRBY', keys[1], 'pending', added)
    if args[3] ~= '' and redis.call('HSETNX', keys[1], 'class', args[4]) == 0 and redis.call('HGET', keys[1], 'class') ~= args[4] then
      redis.call('HSET', keys[1], 'class', '')
    end
    redis.call('EXPIRE', keys[1], args[2])
    redis.call('EXPIRE', keys[2], args[2])
  end
  return pushed
end
