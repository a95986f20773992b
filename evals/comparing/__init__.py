"""Two arms of evals, compared from their records."""
