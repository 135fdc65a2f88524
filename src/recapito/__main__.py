"""`recapito` and `python -m recapito`: the command line, or one process of a server, which its parent starts."""

import gc
import sys


def main() -> None:
    """Run the command line. A role starts without it, since a restart must be quick."""
    if sys.argv[1:] == ["role", "portal"]:
        from recapito.portal.process import run_portal

        sys.exit(run_portal())
    if sys.argv[1:2] == ["role"]:
        gc.disable()  # what is loaded now stays; the role looks for garbage once it runs
        from recapito.roles import run_role

        sys.exit(run_role(sys.argv[2]))
    try:
        from recapito.cli import run
        from recapito.cli.ending import ready_streams

        ready_streams()
        code = run()
    except KeyboardInterrupt:  # before a command could begin
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()
