"""Run records: the folder that a run leaves, and who made it where.

``manifest.json`` says what was run, ``measurements.jsonl`` what was measured (a line a case and subject), ``junit.xml``
and ``summary.md`` say it again for a CI server and for a person. Nothing in here needs torch.
"""
