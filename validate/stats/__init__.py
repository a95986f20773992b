"""Statistics that several layers use: pure functions of numbers, each with its source."""
