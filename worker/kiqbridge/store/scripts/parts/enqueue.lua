-- Push jobs to the producing end of a queue list, and add its name to the set of queues (protocol §5.5).
local function enqueue(queues, name, list, ...)
  redis.call('SADD', queues, name)
  redis.call('LPUSH', list, ...)
end
