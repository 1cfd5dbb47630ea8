-- include push
-- include wrong_type
-- Push a job. Keys: names of queues (set), its queue (list), the scheduled set. Arguments: name of the queue, time
-- to run at (score) or '', the job. Answers 1.
local function effect_push(keys, args)
  local target = args[2] == '' and keys[2] or keys[3]
  local refused = wrong_type(keys[1], 'set') or wrong_type(target, type_for(args[2]))
  if refused then
    return refused.err
  end
  push(keys[1], args[1], target, args[2], args[3])
  return 1
end
