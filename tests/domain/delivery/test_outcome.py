"""Outcomes: Event Grid's word for each HTTP status."""

import pytest

from recapito.domain.delivery.outcome import Outcome, Result, answered


@pytest.mark.parametrize(
    ("status", "result"),
    [
        (200, "Success"),
        (204, "Success"),
        (302, "GenericError"),
        (400, "BadRequest"),
        (401, "Unauthorized"),
        (403, "Forbidden"),
        (404, "NotFound"),
        (408, "TimedOut"),
        (410, "GenericError"),
        (413, "PayloadTooLarge"),
        (429, "Busy"),
        (500, "GenericError"),
        (503, "Busy"),
        (504, "GenericError"),
    ],
)
def test_result_of_a_status(status: int, result: str) -> None:
    """Each status has one of Event Grid's outcome names."""
    assert answered(status, 5, "said so") == Outcome(Result(result), status, 5, "said so")


@pytest.mark.parametrize("result", Result)
def test_a_failure_is_never_called_success(result: Result) -> None:
    """A failed attempt keeps its name, except that a 2xx which does not count is a GenericError."""
    assert Outcome(result).failure == (Result.GENERIC_ERROR if result is Result.SUCCESS else result)
