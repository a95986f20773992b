"""Long outputs: what goes wrong after thousands of tokens, and hides from short tests."""
