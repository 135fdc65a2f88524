"""The operations of each role, as a table."""

from recapito.domain.access.roles import (
    Operation,
    Role,
)

F, R, W, D, A, S = Operation
# Written out, so that a slip in the table of the code is one against this one.
TABLE = {
    (Role.READER, F): True,
    (Role.READER, R): True,
    (Role.READER, W): False,
    (Role.READER, D): False,
    (Role.READER, A): False,
    (Role.READER, S): False,
    (Role.CONTRIBUTOR, F): True,
    (Role.CONTRIBUTOR, R): True,
    (Role.CONTRIBUTOR, W): True,
    (Role.CONTRIBUTOR, D): True,
    (Role.CONTRIBUTOR, A): True,
    (Role.CONTRIBUTOR, S): False,
    (Role.DATA_SENDER, F): True,
    (Role.DATA_SENDER, R): False,
    (Role.DATA_SENDER, W): False,
    (Role.DATA_SENDER, D): False,
    (Role.DATA_SENDER, A): False,
    (Role.DATA_SENDER, S): True,
}
