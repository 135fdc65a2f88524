"""The command that cuts power by the hundred thousand: it runs, counts, and says what is lost."""

from tests.powercuts.__main__ import live, summary


def test_a_few_cuts_lose_nothing() -> None:
    """Three disks, cut eight times each."""
    assert live("FULL", None, range(3)) == (3, [])


def test_a_loss_is_told_with_its_seed() -> None:
    """Without syncing, disks lose what was acknowledged, and each says how to see it again."""
    lived, losses = live("OFF", None, range(10))
    assert lived == 10 and losses
    assert all(loss.startswith("SEED=") for loss in losses)


def test_nothing_is_begun_too_late() -> None:
    """After its time a run counts what it did, not what it meant to do."""
    assert live("FULL", 0.0, range(3)) == (0, [])
    assert summary(2, 5, 0, 1.0) == "power cuts: 16 (seeds 5–6), 0 disks lost something; 1 s"
