"""Types that authors of rollouts construct or subclass: pydantic models (ruling 24)."""
