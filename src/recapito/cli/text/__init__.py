"""Answers as text for a terminal: explanations, tables, times, colours. Text from outside is escaped."""
