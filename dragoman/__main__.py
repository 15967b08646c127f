"""`python -m dragoman` is `dragoman`."""

import os
import sys

from dragoman.cli.main import main


def _run() -> int:
    try:
        return main()
    except SystemExit as leave:
        return leave.code if isinstance(leave.code, int) else int(leave.code is not None)


if __name__ == "__main__":
    code = _run()
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        # One of several processes of torchrun. A thread of torch.distributed that has not quite ended would bring
        # Python's own ending down with SIGABRT, after all the work is done and saved.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
