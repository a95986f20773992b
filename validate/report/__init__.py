"""What a person or a CI server reads: made from a run record alone, without torch."""
