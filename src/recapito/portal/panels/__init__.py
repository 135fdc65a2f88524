"""Larger parts that several pages show: attempts, explanations, dead letters, the retry timetable, the clock."""
