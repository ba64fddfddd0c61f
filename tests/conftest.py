from hypothesis import settings

# the same examples on every machine, however slow; they need no database on disk
settings.register_profile("steady", derandomize=True, deadline=None)
settings.load_profile("steady")
