"""Answers to what is asked of data: noisy numbers, chains of them, coins, choices, thresholds, searches."""
