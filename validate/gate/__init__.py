"""What is run before a merge: the layers' own commands, cheapest first, within a budget. See docs/gate.md."""
