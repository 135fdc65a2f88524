"""Lives of a service that end with a loss of power."""

from tests.system.power_loss_disk import PowerLoss
from tests.system.power_loss_world import World

LIVES = 8


def live_and_lose_power(world: World, lives: int) -> None:
    """Work until the power goes, again and again, and look each time at what is there."""
    for _ in range(lives):
        under_way = None
        world.disk.cut_at = world.disk.operations + world.chance.randrange(1, 120)
        try:
            if world.real is None:
                world.open()
            while True:
                under_way = world.random_verb()
                world.do(under_way)
        except PowerLoss:
            world.lose_power(lambda: world.chance.randrange(1, 40) if world.chance.random() < 0.2 else None)
        world.check(under_way)
