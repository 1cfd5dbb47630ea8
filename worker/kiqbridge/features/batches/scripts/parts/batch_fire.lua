-- Announce what has become of a batch that takes no more from its maker: each event once, by an end of its own that
-- waits with those of jobs (its callback is pushed when that is applied), and by an end for the parent.
-- Keys: the batch (hash), its members (hash), the batches (sorted set), ends of jobs under flow control (sorted set).
-- Answers the number of ends that were added.
local function batch_fire(keys, bid, now, keep_open, keep_done)
  local read = redis.call('HMGET', keys[1], 'sealed', 'dead', 'pending', 'failed', 'parent', 'away', 'keep')
  if not read[1] or tonumber(read[6] or 0) > 0 then -- members that are away are counted, and announced, there
    return 0
  end
  local parent, ends = read[5], 0
  local function add(flow, member, outcome)
    local rest = '"class":"Batch","queue":"","outcome":"' .. outcome .. '","at":' .. now .. '}'
    redis.call('ZADD', keys[4], 0, '{"flow":' .. flow .. ',"jid":"' .. member .. '",' .. rest)
    ends = ends + 1
  end
  local function announce(event, adds)
    if redis.call('HSETNX', keys[1], event .. '_at', now) == 0 then
      return false
    end
    local callback = redis.call('HMGET', keys[1], 'on_' .. event, 'on_' .. event .. '_member')
    if callback[1] then
      add('{"launch":' .. callback[1] .. '}', bid, 'done')
      adds[#adds + 1] = '"' .. callback[2] .. '"'
    end
    return true
  end
  local function inform(adds, outcome, more)
    if parent then
      local flow = '{"bid":"' .. parent .. '","adds":[' .. table.concat(adds, ',') .. ']' .. more .. '}'
      add(flow, 'b:' .. bid, outcome)
    end
  end
  local adds = {}
  if read[2] and announce('death', adds) then
    inform(adds, 'dead', ',"event":"death"')
  end
  if tonumber(read[3]) == 0 then
    adds = {}
    local is_success = tonumber(read[4]) == 0
    local is_first = announce('complete', adds)
    local succeeds = is_success and announce('success', adds)
    if is_first or succeeds then
      inform(adds, is_success and 'done' or 'skipped', '')
      local keep = is_success and (read[7] or keep_done) or keep_open
      redis.call('EXPIRE', keys[1], keep)
      redis.call('EXPIRE', keys[2], keep)
      redis.call('ZADD', keys[3], tonumber(now) + tonumber(keep), bid)
    end
  end
  return ends
end
