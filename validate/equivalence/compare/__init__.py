"""Three recorded arms compared: the default path, the default path again, the specialized path. No engine is needed for it."""
