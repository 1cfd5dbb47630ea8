"""What the test tiers share: servers, child processes, Ruby, and waiting for a condition."""
