"""Long outputs of three arms, compared from their records."""
