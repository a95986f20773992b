"""What an answer is worth: one file a benchmark, each with ``grade(response, gold)``.

All of them go the same way (``response.py``): what failed, was cut off, is empty or was not parsed is counted as that and never
as a wrong answer; then the final content alone is read. Nothing of a response is ever evaluated.
"""
