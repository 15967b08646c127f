"""`python -m dragoman` is `dragoman`."""

import os
import sys

from dragoman.cli.main import main

if __name__ == "__main__":
    try:
        sys.exit(main())
    except SystemExit as leave:
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            raise
        # One of several processes of torchrun. A thread of torch.distributed that has not quite ended would bring
        # Python's own ending down with SIGABRT, after all the work is done and saved.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(int(leave.code or 0))
