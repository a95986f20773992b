"""Signs that an output has degenerated, one file each: where in the output it shows. No engine, no reference, no other arm.

``table.py`` says which there are, and which are granted nothing.
"""
