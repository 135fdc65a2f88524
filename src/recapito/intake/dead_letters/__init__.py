"""Dead letters: found in the vaults, and published again or removed, a bounded number in each call."""
