"""What a server makes once and keeps: its signing key, its development principal, its certificates."""
