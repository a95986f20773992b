"""Kimi K3's accuracy benchmarks on both decode paths, paired by item."""
