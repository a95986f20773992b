"""Whole engines: arms are recorded, each where its engine runs, and compared from their records."""
