#!lua
-- Write batches with their jobs, or the first step of a chain, in one step.
-- KEYS for each effect its keys
-- ARGV the effects (parts/each_effect.lua)
-- Returns for each effect what it answers (parts/effect_NAME.lua); a text that begins with WRONGTYPE: a key has a
-- value of another type, and this effect did nothing.
-- Repeated: a batch is there already, its members are not pushed again, and neither is a step behind a guard.
-- See docs/how_to/batches.md
-- include apply_effects
-- include effect_push
-- include effect_guard
-- include effect_batch_make
-- include effect_batch_jobs
-- include effect_batch_seal
-- include effect_batch_outline
return (apply_effects(1, 1))
