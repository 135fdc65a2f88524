"""Intake: takes events and resources in, makes them durable, and keeps the log from growing without need."""
