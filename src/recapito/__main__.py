"""`recapito` and `python -m recapito`: the command line, or one process of a server, which its parent starts."""

import gc
import sys

from recapito.system.parent_death import tie_to_parent


def main() -> None:
    """Run the command line, or a role without loading it, since a restart must be quick.

    A role that is given its parent's process id does not outlive it.
    """
    if sys.argv[1:2] == ["role"] and len(sys.argv) > 3 and not tie_to_parent(int(sys.argv[3])):
        sys.exit(1)
    if sys.argv[1:3] == ["role", "portal"]:
        from recapito.portal.process import run_portal

        sys.exit(run_portal())
    if sys.argv[1:3] == ["role", "standby"]:
        from recapito.process.standby import run_standby

        sys.exit(run_standby())
    if sys.argv[1:2] == ["role"]:
        gc.disable()  # everything loaded now stays; the role enables the collector once it runs
        from recapito.process.roles import run_role

        sys.exit(run_role(sys.argv[2], in_cluster=sys.argv[4:] == ["cluster"]))
    try:
        from recapito.cli import run
        from recapito.cli.toolkit.fatal import ready_streams

        ready_streams()
        code = run()
    except KeyboardInterrupt:  # before a command could begin
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()
