"""``python -m tiramisu_py``: the command line."""

import sys

from tiramisu_py.console import main

sys.exit(main())
