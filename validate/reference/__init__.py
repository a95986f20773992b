"""The float64 equations of every decode stage: the judge. Shares no code with a subject."""
