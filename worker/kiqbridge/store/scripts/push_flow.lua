#!lua
-- Write batches with their jobs, or the first step of a chain, in one step.
-- KEYS for each effect its keys
-- ARGV the effects (parts/each_effect.lua)
-- Returns for each effect what it answers (parts/effect_NAME.lua); a text that begins with WRONGTYPE: a key has a
-- value of another type, and this effect did nothing.
-- Repeated: a batch is there already, its members are not pushed again, and neither is a step behind a guard.
-- See docs/batches.md
-- include apply_effects
return (apply_effects(1, 1))
