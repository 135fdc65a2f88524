"""How Hypothesis behaves in all tests: nothing depends on how busy the machine is."""

from hypothesis import HealthCheck, settings

settings.register_profile("recapito", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("recapito")
