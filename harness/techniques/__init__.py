"""The paper's recommendations, one after another, as a scenario that runs on any lab."""
