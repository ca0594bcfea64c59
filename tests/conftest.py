"""What holds for all tests."""

from hypothesis import HealthCheck, settings

# A machine that stands still for a second says nothing about the code; costs are measured as ratios, where they count.
settings.register_profile("arcops", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("arcops")
