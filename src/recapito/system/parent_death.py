"""What ties a process of a server to its parent: it goes when the parent goes, in every state of its life.

The pipe that brings its order says the same, but only to who reads it: a role that loads, opens its files or is busy
does not, and would hold the locks and sockets that the next server needs.
"""

import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1


def tie_to_parent(parent: int) -> bool:
    """Have the system kill this process when its parent dies; False if that has happened already."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    return os.getppid() == parent  # asked only now: one that dies from here on takes us along
