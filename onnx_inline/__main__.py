"""Run the command line as ``python -m onnx_inline``."""

import sys

from onnx_inline.cli import main

sys.exit(main())
