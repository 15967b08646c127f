"""`python -m dragoman` is `dragoman`."""

import os
import sys
from typing import Any

from dragoman.cli.main import main

if __name__ == "__main__":
    code: Any
    try:
        code = main()
    except SystemExit as leave:
        code = leave.code
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        # One of several processes of torchrun. A thread of torch.distributed that has not quite ended would bring
        # Python's own ending down with SIGABRT, after all the work is done and saved.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(int(code or 0))
    sys.exit(code)
