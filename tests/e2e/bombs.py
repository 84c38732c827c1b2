"""Small gzip files that expand to a gigabyte."""

import zlib


def bomb(begin: bytes, repeated: bytes, size: int) -> bytes:
    """Return gzip of begin + repeated..., made of one repeated compressed piece to save memory."""
    squeeze = zlib.compressobj(9, zlib.DEFLATED, 31)
    head = squeeze.compress(begin) + squeeze.flush(zlib.Z_FULL_FLUSH)
    piece = squeeze.compress(repeated * 1_000_000) + squeeze.flush(zlib.Z_FULL_FLUSH)
    return head + piece * (size // (len(repeated) * 1_000_000))
