"""The controls of a manual clock, with the counts of what happened during a move."""

from collections.abc import Awaitable, Callable
from functools import partial

from recapito.domain import limits
from recapito.portal import format
from recapito.portal.api_types import ShownMove
from recapito.portal.page import Page
from recapito.portal.widgets.form import Form
from recapito.portal.widgets.pieces import attribute, bar, button, panel, press, text

_STEPS = {"1 minute": 60, "10 minutes": 600, "1 hour": 3600, "1 day": 86400}


def clock_panel(page: Page, moved: Callable[[], Awaitable[None]] | None = None) -> Callable[[], Awaitable[None]]:
    """The panel; `moved` runs after each move. Returns the function that refreshes the time."""
    with panel("Clock", "clock"):
        now = text("p", "", "mono")
        with bar():
            buttons = [button(f"Advance {name}") for name in _STEPS]
            idle = button("Until idle", kind="primary")
        form = Form()
        with bar("end"):
            seconds = form.number("seconds", "Seconds", limits.ADVANCE_S, None)
            by = button("Advance")
        message = text("p", "", "note")
        attribute(message, role="status")
        message.set_visibility(False)

    async def show() -> None:
        clock = await page.server.clock()
        now.text = f"It is {format.instant(clock.now)} UTC until you move the clock."

    async def move(body: dict[str, object]) -> None:
        message.text = "Moving …"
        message.set_visibility(True)
        message.text = _happened(await page.server.advance(body))
        await show()
        if moved is not None:
            await moved()

    async def move_by_seconds() -> None:
        if form.is_valid:
            await move({"seconds": int(seconds.value)})

    for pressed, step in zip(buttons, _STEPS.values(), strict=True):
        press(pressed, page.doing(partial(move, {"seconds": step})))
    press(idle, page.doing(partial(move, {"until": "idle"})))
    press(by, page.doing(move_by_seconds))
    return show


def _happened(moved: ShownMove) -> str:
    return (
        f"It is now {format.instant(moved.now)}. Meanwhile: {moved.attempts} attempts, {moved.delivered} delivered, "
        f"{moved.dead_lettered} dead-lettered, {moved.dropped} dropped; {moved.pending} are pending."
    )
