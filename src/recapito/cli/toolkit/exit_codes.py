"""Exit codes, all of them. A wrong flag is 2 and what is not there is 3, as az has it."""

import os

FAILED = 1
WRONG_USE = 2
NOT_FOUND = 3
WRONG_SETTINGS = os.EX_CONFIG
TRY_AGAIN = os.EX_TEMPFAIL
INTERRUPTED = 130
