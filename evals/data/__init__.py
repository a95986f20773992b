"""Benchmark data: which revision of which set, loaded and verified row by row. No row of them is in the project."""
