"""Records into evidence. One file a kind of record; each has ``read(folder, source)``."""
