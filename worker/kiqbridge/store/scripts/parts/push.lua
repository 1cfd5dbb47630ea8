-- include enqueue
-- Push one job: to its queue list, or, with a score that is not '', to a sorted set (protocol §5.5).
local function push(queues, name, key, score, job)
  if score == '' then
    enqueue(queues, name, key, job)
  else
    redis.call('ZADD', key, score, job)
  end
end
-- The type that the key of such a push must have.
local function type_for(score)
  return score == '' and 'list' or 'zset'
end
