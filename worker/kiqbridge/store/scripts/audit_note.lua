#!lua flags=allow-oom
-- Add an entry to the audit log of operators' actions.
-- KEYS 1 audit log (sorted set), 2 its entries (hash), 3 their counts (hash)
-- ARGV 1 id of the audit entry, 2 time of the entry, 3 the entry, 4 its count
-- Returns the count.
-- Repeated: the same entry, once.
-- See protocol §22.
-- include audit
local refused = wrong_audit(KEYS[1], KEYS[2], KEYS[3])
if refused then
  return refused
end
local total, last = noted(KEYS[3], ARGV[1])
if last > 0 then
  return total
end
return note(KEYS[1], KEYS[2], KEYS[3], ARGV[1], 1, ARGV[2], ARGV[3], tonumber(ARGV[4]))
