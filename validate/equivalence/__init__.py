"""Whole engines: arms are described, recorded and compared."""
