#!lua flags=allow-oom
-- Switch a schedule of the gem sidekiq-cron on or off, as its own `enable!` and `disable!` do.
-- With memory full too: it replaces a word by another one.
-- KEYS 1 hash of the schedule
-- ARGV 1 the new status, enabled or disabled
-- Returns the status before, or false when there is no such schedule: nothing is written then, since a hash
--         with a status alone would be a broken schedule to the gem.
-- Repeated: writes the same, and returns the new status.
-- See protocol §20.
-- include wrong_type
local refused = wrong_type(KEYS[1], 'hash')
if refused then
  return refused
end
local before = redis.call('HGET', KEYS[1], 'status')
if before then
  redis.call('HSET', KEYS[1], 'status', ARGV[1])
end
return before
