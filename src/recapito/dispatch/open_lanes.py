"""The open lanes of a process by the ids of their subscriptions: the dispatcher opens them, others look them up."""

from recapito.dispatch.dead_letter_writer import Owner, unknown_owner
from recapito.dispatch.lane.lane import Lane
from recapito.domain.profiles.profile import load


class OpenLanes(dict[int, Lane]):
    """`default_profile` is the one of topics that name none."""

    def __init__(self, default_profile: str) -> None:
        super().__init__()
        self.default_profile = default_profile

    def owner_of(self, lane_id: int) -> Owner:
        """The subscription that a lane's dead letters belong to, and the rules by which they are written."""
        lane = self.get(lane_id)
        if lane is None:
            return unknown_owner(lane_id, load(self.default_profile).dead_letter)
        return Owner(lane.subscription.name, lane.profile.dead_letter, lane.recorder, lane.wake)
