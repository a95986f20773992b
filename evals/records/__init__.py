"""What the record of an arm of evals holds, and its folder."""
