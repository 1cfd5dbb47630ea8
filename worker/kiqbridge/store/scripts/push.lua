#!lua
-- Push jobs, all of them or none, each by what guards it: a key under which it is pushed once, and one of the rules
-- of flow control (parts/push_jobs.lua).
-- No allow-oom: with memory full a push is refused as a whole before anything is written.
-- What guards has no TTL: a server whose memory is full evicts what has one. The server's clock says what is over;
-- each push forgets some of it.
-- KEYS, ARGV as of parts/push_jobs.lua
-- Returns what became of each job, or what refuses all of them, as there.
-- Repeated: jobs with a key are known; those without one are pushed again, if their rule lets them.
-- See reliability §11 and §14, protocol §5.5.
-- include push_jobs
local push = judge_jobs(0, 0, redis.call('TIME'))
return push.refused or push.write()
