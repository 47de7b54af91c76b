"""A version without a layout table, or a build of another kind: no frames, and it says so."""
import sys

import frames_support as support


def test_declines():
    for library in support.LIBRARIES:
        told, frames = support.walk(library)
        assert not frames and told.frames == 0 and not told.truncated and not told.unreadable and told.hash == 0
        assert library.test_unsupported_minor() == support.MINOR
        assert library.test_loaded() == 1
        assert library.test_hex_version() == sys.hexversion
        assert support.walk_hash(library) == 0


if __name__ == "__main__":
    support.finish("declined", *support.run_tests(globals()))
