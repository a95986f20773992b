"""One TOML file an arm set: which engine, which scenes."""
