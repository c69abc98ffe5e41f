"""Hypothesis: the same examples in every run, so that a test fails for a change and not by chance.

``pytest --hypothesis-profile=random`` draws other examples each time. A slow machine is no fault of a test.
"""

from hypothesis import HealthCheck, settings

settings.register_profile("random", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("same", settings.get_profile("random"), derandomize=True)
settings.load_profile("same")
