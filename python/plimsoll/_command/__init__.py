"""Recording without changes to the program: `plimsoll run`, `enable`, ``PLIMSOLL=1``."""
