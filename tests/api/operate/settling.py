"""Settling a lane by hand, for tests of the books over HTTP."""

from typing import Any

from recapito.contracts.ledger import Settlement
from recapito.domain.resources.subscription import Subscription
from tests.api.client import World


async def settle(world: World, made: Subscription, **parts: Any) -> None:
    """Settle the lane of a subscription."""
    row = await world.ledger.open_lane(made.id, made.topic, world.log.id, made.created_position)
    await world.ledger.settle([Settlement(row.id, row.version, **{"cursor": row.cursor, "hold": row.hold, **parts})])
