"""Dead letters found again in the vaults, and published anew or removed, a bounded number in each call."""
