"""The steps before a merge, by machine: one TOML file a profile."""
