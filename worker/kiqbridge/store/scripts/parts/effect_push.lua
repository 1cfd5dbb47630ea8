-- include effects
-- include push
-- Push a job. Keys: names of queues (set), its queue (list), the scheduled set. Arguments: name of the queue, time
-- to run at (score) or '', the job. Answers 1.
TYPES.push = {'set', 'list', 'zset'}
function EFFECTS.push(keys, args)
  local target = args[2] == '' and keys[2] or keys[3]
  push(keys[1], args[1], target, args[2], args[3])
  return 1
end
