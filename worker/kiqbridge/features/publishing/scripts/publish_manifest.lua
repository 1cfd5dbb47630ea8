#!lua
-- Publish the schedules of one stack: write those of its manifest, and remove those that it had before.
-- Which manifest is newer is decided here, so that two functions that start at once agree.
-- A schedule keeps since when it is expected, unless what says when it is due has changed.
-- No allow-oom: with memory full it is refused as a whole before anything is written.
-- KEYS 1 schedules (hash: name → definition), 2 manifests (hash: stack → entry)
-- ARGV 1 stack, 2 version, 3 hash of the content, 4 entry without its times, 5 '1' = also an older one
--      6 how many schedules, then for each its name, then for each its definition
-- Returns {outcome, version that stood before or '', removed schedules}; the outcome is published,
-- unchanged, older (nothing was written) or rolled back.
-- Repeated: {'unchanged', the same version, 0}, and nothing is written.
-- See docs/reference/schedules.md.
-- include wrong_type
local refused = wrong_type(KEYS[1], 'hash') or wrong_type(KEYS[2], 'hash')
if refused then
  return refused
end
local version, count = tonumber(ARGV[2]), tonumber(ARGV[6])
local text = redis.call('HGET', KEYS[2], ARGV[1])
local found, standing = pcall(cjson.decode, text or '{}')
if not found or type(standing) ~= 'table' then
  standing = {}
end
local before = tonumber(standing.version)
-- After a rollback, what was rolled back is not newer, though its number is higher.
local newest = tonumber(standing.newest) or before or version
local outcome = 'published'
if before and version ~= before and version <= newest then
  if ARGV[5] ~= '1' then
    return {'older', string.format('%.0f', before), 0}
  end
  outcome = version < before and 'rolled back' or outcome
end
local same = standing.hash == ARGV[3]
if same and version == before then
  return {'unchanged', string.format('%.0f', before), 0}
end
local now = redis.call('TIME')[1]
local function with_members(members, document)
  return '{' .. members .. ',' .. string.sub(document, 2)
end
local removed, kept = 0, {}
if not same then
  for i = 7, 6 + count do
    local name, document, since = ARGV[i], ARGV[i + count], now
    kept[name] = true
    local was_read, old = pcall(cjson.decode, redis.call('HGET', KEYS[1], name) or 'null')
    if was_read and type(old) == 'table' and old.origin == 'template' and old.since then
      local new = cjson.decode(document)
      local is_same = true
      for _, member in ipairs({'expression', 'timezone', 'start', 'end', 'enabled'}) do
        is_same = is_same and old[member] == new[member]
      end
      since = is_same and string.format('%.0f', old.since) or now
    end
    redis.call('HSET', KEYS[1], name, with_members('"since":' .. since, document))
  end
  for _, name in ipairs(type(standing.names) == 'table' and standing.names or {}) do
    local was_read, old = pcall(cjson.decode, redis.call('HGET', KEYS[1], name) or 'null')
    if not kept[name] and was_read and type(old) == 'table' and old.origin == 'template' then
      removed = removed + redis.call('HDEL', KEYS[1], name)
    end
  end
end
local members = '"published_at":' .. now .. ',"newest":' .. string.format('%.0f', math.max(newest, version))
if outcome == 'rolled back' then
  members = members .. ',"rolled_back_from":' .. string.format('%.0f', before)
end
redis.call('HSET', KEYS[2], ARGV[1], with_members(members, ARGV[4]))
if same and outcome == 'published' then
  outcome = 'unchanged'
end
return {outcome, before and string.format('%.0f', before) or '', removed}
