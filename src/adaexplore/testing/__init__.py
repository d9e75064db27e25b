"""Real servers on free ports and fakes that pass the same contract tests."""
