"""Asking before something that cannot be taken back."""

from nicegui import ui

from recapito.portal.widgets.pieces import attribute, bar, button, text


async def confirm(question: str, detail: str, yes: str, danger: bool = True) -> bool:
    """Whether the person agrees."""
    with ui.dialog() as dialog, ui.card() as card:
        attribute(card, role="alertdialog", aria_label=question)
        text("h2", question)
        text("p", detail)
        with bar("end"):
            button(yes, lambda: dialog.submit(True), "danger" if danger else "primary")
            button("Cancel", lambda: dialog.submit(False)).props("autofocus")
    agreed = bool(await dialog)
    dialog.delete()
    return agreed
