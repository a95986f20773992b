"""Correctness validation of vLLM's specialized Kimi K3 decode."""
