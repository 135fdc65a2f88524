"""`recapito` and `python -m recapito`: the command line, or one process of a server, which its parent starts."""

import gc
import sys
from importlib import import_module

from recapito.system.parent_death import tie_to_parent


def main() -> None:
    """Run the command line, or a role without loading it, since a restart must be quick.

    A role that is given its parent's process id does not outlive it.
    """
    if sys.argv[1:2] == ["role"] and len(sys.argv) > 3 and not tie_to_parent(int(sys.argv[3])):
        sys.exit(1)
    if sys.argv[1:2] == ["role"]:
        sys.exit(_run_role(sys.argv[2], in_cluster=sys.argv[4:] == ["cluster"]))
    try:
        from recapito.cli import run
        from recapito.cli.toolkit.fatal import ready_streams

        ready_streams()
        code = run()
    except KeyboardInterrupt:  # before a command could begin
        code = 130
    sys.exit(code)


def _run_role(name: str, in_cluster: bool) -> int:
    """Run a role, and load that role alone.

    That of a node loads NATS before it waits for its configuration: a hand-over need not wait for that.
    """
    if name == "portal":
        from recapito.portal.process import run_portal

        return run_portal()
    if name == "standby":
        from recapito.process.standby import run_standby

        return run_standby()
    gc.disable()  # everything loaded now stays; the role enables the collector once it runs
    if name == "intake":
        from recapito.process.intake_role import run_intake as run
    elif name == "dispatch":
        from recapito.process.dispatch_role import run_dispatch as run
    else:
        from recapito.process.alone import run_alone as run
    if in_cluster:
        import_module("recapito.composition.cluster")
    return run()


if __name__ == "__main__":
    main()
