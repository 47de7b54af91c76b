"""A test suite that uses CUDA, for unittest."""
import ctypes
import os
import unittest


class Uses(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.library = ctypes.CDLL(os.environ["HOST_LIBRARY"])
        cls.library.host_begin()

    def test_pairs(self):
        self.library.host_pairs(100)
