"""Suites: which tasks are asked of which arm set, how often, and by how much the specialized path may be worse."""
