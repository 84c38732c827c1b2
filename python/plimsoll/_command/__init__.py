"""Recordings without a line in the program: `plimsoll run`, `enable`, ``PLIMSOLL=1``."""
