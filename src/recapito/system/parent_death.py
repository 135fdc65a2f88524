"""The tie of a process to its parent: the system kills it when the parent dies, whatever it is doing.

The end of the pipe with its configuration shows the same, but only to a process that reads it: a role that loads, opens
its files or is busy does not, and would hold the locks and sockets that the next server needs.
"""

import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1


def tie_to_parent(parent: int) -> bool:
    """Have the system kill this process when its parent dies. Return False if the parent is dead already."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    return os.getppid() == parent  # checked after the call: a parent that dies from here on ends us
