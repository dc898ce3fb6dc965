"""Property tests of fits: how long one example takes says nothing on a busy machine."""

from hypothesis import settings

settings.register_profile("numbers", deadline=None)
settings.load_profile("numbers")
