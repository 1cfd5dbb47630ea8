#!lua flags=allow-oom
-- The claim of the process that listens (docs/decisions/0011): as claim.lua, and if it brings jobs the role goes to
-- the process that has been parked for longest.
-- KEYS as claim.lua, then the wake list and the sign of who listens
-- ARGV as claim.lua, then the generation of the role and how long the sign lasts (ms)
-- Returns what claim.lua returns.
-- Repeated with the stored number: the same chunk again; the role is handed on once more, which costs commands only.
-- See reliability §2, reliability §7.
local sign_ms, generation = table.remove(ARGV), table.remove(ARGV)
local sign, list = table.remove(KEYS), table.remove(KEYS)
-- include claim
local reply = claim(true)
if type(reply) == 'table' and reply[1] ~= '' then
  redis.call('SET', sign, generation, 'PX', sign_ms)
  redis.call('RPUSH', list, generation)
end
return reply
