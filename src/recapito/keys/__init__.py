"""What a server makes once and keeps: its signing key, its development principal, its certificates;
and the connections that it was given, sealed."""
