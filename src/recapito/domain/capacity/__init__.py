"""How much is taken in: the rate of a topic, the wait of a publish, the shares of a volume."""
