"""Reserves stock for orders: called by Event Grid, and publishing to it."""
