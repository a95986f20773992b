"""Kimi K3 as data: dimensions, synthetic weights, cache state. No arithmetic of the model."""
