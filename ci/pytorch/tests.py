"""What ci/peers makes of its arguments, without PyTorch."""

import contextlib
import io
import sys
import unittest
from unittest import mock

from compare import FORMATS, arguments, formats

SERVERS = ["--layer-server", "peer", "--step-server", "step"]


class Peers(unittest.TestCase):
    def test_an_empty_line_is_explained(self):
        for line in ("", "  "):
            said = io.StringIO()
            with mock.patch.object(sys, "argv", ["compare.py", *SERVERS, "sgd len=4", line]):
                with contextlib.redirect_stderr(said), self.assertRaises(SystemExit) as ended:
                    arguments()
            self.assertEqual(ended.exception.code, 2)
            self.assertIn("LINE: expected a problem", said.getvalue())

    def test_images_have_two_formats(self):
        for line, count in (("batch_norm n=1 c=2 in=4x4", 2), ("batch_norm in=4 n=1 c=2x2", 1), ("dense n=1 c=2 k=3", 1),
                            ("cosmoflow width=32 batch=1 norm=none", 2), ("leaky_relu n=1 in=", 1)):
            self.assertEqual(formats(line), FORMATS[:count], line)


if __name__ == "__main__":
    unittest.main()
