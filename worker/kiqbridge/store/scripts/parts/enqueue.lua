-- Push jobs to the producing end of a queue list, and add its name to the set of queues (protocol §5.5), once in a
-- script.
local named = {}
local function enqueue(queues, name, list, ...)
  if not named[name] then
    redis.call('SADD', queues, name)
    named[name] = true
  end
  redis.call('LPUSH', list, ...)
end
