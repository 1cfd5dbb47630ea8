#!lua flags=allow-oom
-- The claim of the process that listens (docs/decisions/0011): as claim.lua, and if it brings jobs the role goes to
-- the process that has been parked for longest.
-- KEYS as claim.lua, then the wake list if there is a token
-- ARGV as claim.lua, then the token, '' = none, since no other process waits
-- Returns what claim.lua returns.
-- Repeated with the stored number: the same chunk again; the role is handed on once more, which costs commands only.
-- See reliability §2, reliability §7.
local token = table.remove(ARGV)
local list = token ~= '' and table.remove(KEYS)
-- include claim
local reply = claim(true)
if list and type(reply) == 'table' and reply[1] ~= '' then
  redis.call('RPUSH', list, token)
end
return reply
