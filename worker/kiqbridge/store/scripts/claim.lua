#!lua flags=allow-oom
-- Claim number s of one claimer: acknowledge chunk s - 1 and take the next one from one queue.
-- KEYS 1 registered incarnations (set), 2 claims of this one (hash), 3 list to fill (s mod 2),
--      4 list to acknowledge, 5 paused queues (set), 6 queues to be careful with (set), 7 how
--      many jobs to claim alone (hash), 8… queue lists in the order of this draw
-- ARGV 1 incarnation, 2 claimer, 3 s, 4 most jobs to take, and perhaps, behind a slash, to how many others
--      their shares of a queue are left; `!` if chunk s - 1 is acknowledged already; `?` if the outcome of a claim
--      of this number is unknown, 5… queue names as in KEYS, then classes of which none is to be claimed, as they are
--      spelled in JSON
-- Returns {queue, newest job, …, oldest job}, {''} if there was none, -1 when the lease is gone
-- (fenced), -2 when s is neither the stored number nor its successor (stale). Without queues it only
-- acknowledges. s is stored if there were jobs, or with `?`, so that one that is delivered late takes none;
-- else the next claim has the same number.
-- Repeated with the stored number: the same chunk again, since the reply was lost; else it looks once more.
-- See reliability §2, reliability §6, reliability §8.
-- include claim
return claim()
