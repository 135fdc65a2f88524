"""The controls of a manual clock: move it, and see what happened meanwhile."""

from collections.abc import Awaitable, Callable
from functools import partial

from recapito.domain import limits
from recapito.portal import format
from recapito.portal.api_types import Moved
from recapito.portal.page import Page
from recapito.portal.widgets.form import Form
from recapito.portal.widgets.pieces import attribute, bar, button, panel, text

_STEPS = {"1 minute": 60, "10 minutes": 600, "1 hour": 3600, "1 day": 86400}


def clock_panel(visit: Page, moved: Callable[[], Awaitable[None]] | None = None) -> Callable[[], Awaitable[None]]:
    """The panel; `moved` is done after each move. What it gives back shows the time anew."""
    with panel("Clock", "clock"):
        now = text("p", "", "mono")
        with bar():
            buttons = [button(f"Advance {name}") for name in _STEPS]
            idle = button("Until idle", kind="primary")
        form = Form()
        with bar("end"):
            seconds = form.number("seconds", "Seconds", limits.ADVANCE_S, None)
            by = button("Advance")
        said = text("p", "", "note")
        attribute(said, role="status")
        said.set_visibility(False)

    async def show() -> None:
        clock = await visit.server.clock()
        now.text = f"It is {format.instant(clock.now)} UTC, and stays so until you move it."

    async def move(body: dict[str, object]) -> None:
        said.text = "Moving …"
        said.set_visibility(True)
        said.text = _happened(await visit.server.advance(body))
        await show()
        if moved is not None:
            await moved()

    async def move_by_seconds() -> None:
        if form.is_valid:
            await move({"seconds": int(seconds.value)})

    for made, step in zip(buttons, _STEPS.values(), strict=True):
        made.on_click(visit.doing(partial(move, {"seconds": step})))
    idle.on_click(visit.doing(partial(move, {"until": "idle"})))
    by.on_click(visit.doing(move_by_seconds))
    return show


def _happened(moved: Moved) -> str:
    return (
        f"It is now {format.instant(moved.now)}. Meanwhile: {moved.attempts} attempts, {moved.delivered} delivered, "
        f"{moved.dead_lettered} dead-lettered, {moved.dropped} dropped; {moved.pending} are pending."
    )


async def build(visit: Page) -> None:
    """The page of the clock."""
    visit.layout("Clock", "/clock")
    clock = await visit.server.clock()
    if clock.manual:
        show = clock_panel(visit)
        await show()
        visit.poll(show)
        return
    with panel():
        text("p", f"The clock is {clock.mode}: {format.instant(clock.now)} UTC.")
        text("p", "Start the server with --clock manual to move time by hand, for tests and rehearsals.", "muted")
