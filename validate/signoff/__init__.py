"""The sign-off: what all layers' records say together, and whether a release may be signed.

``reading``   one file a kind of record: from its folder to ``Evidence``
``evidence``  what a record contributes, of any layer: verdict, what ran where, proof of path, figures, tables, plots
``required``  what a sign-off asks for, and every reason why it is refused
``report``    the whole, as data: what the JSON file holds
``plots``, ``html``, ``markdown``, ``junit``  the report for people and machines
``claims``    what was published about the path (``published``), beside what was measured (``measured``), by ``conditions``

Nothing here runs anything on an engine or a GPU: records come from wherever they were made.
"""
