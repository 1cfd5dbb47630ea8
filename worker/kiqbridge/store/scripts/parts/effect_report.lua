-- include wrong_type
-- Pass on a report for Step Functions. Keys: the reports (sorted set). Arguments: the report. Answers 1.
local function effect_report(keys, args)
  local refused = wrong_type(keys[1], 'zset')
  if refused then
    return refused.err
  end
  redis.call('ZADD', keys[1], 0, args[1])
  return 1
end
