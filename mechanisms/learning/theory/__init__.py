"""What is promised of learning, and certifies no privacy: classes, VC dimension, contracts, sample sizes."""
