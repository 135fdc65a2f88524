"""Exit codes, all of them."""

import os

FAILED = 1
WRONG_SETTINGS = os.EX_CONFIG
