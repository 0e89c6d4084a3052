"""Audits of trainings: step by step, over many trainings, and of one training with many canaries."""
